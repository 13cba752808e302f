"""Changes to `wicket.toml`: servers added, removed, enabled and disabled; every comment stays.

A change is text in, text out; `save` parses the result as a configuration before it writes, and then replaces the whole
file, so that a bad edit or a full disk changes nothing.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.config.edit import toml
from wicket_mcp.config.edit.client_entries import read_text
from wicket_mcp.config.model import names, units
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.options import options_of
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.read import formats, locate
from wicket_mcp.config.read.secrets import literal_secrets
from wicket_mcp.errors import ConfigError, UnknownName
from wicket_mcp.files import replace_file
from wicket_mcp.spelling import nearest

SECRETS = "secrets"
"""The folder beside `wicket.toml` for values that must not be in it."""

_ASIDE = re.compile(rf"\$\{{file:({SECRETS}/[^}}]+)\}}")

TEMPLATE = """\
# The MCP servers behind Wicket. `wicket add NAME -- COMMAND` and `wicket import CLIENT` write to the end of this file.

# dialects = ["native"]     # vocabularies of tools to show to agents
# log_level = "info"

# [servers.time]
# command = "uvx"
# args = ["mcp-server-time"]

# [servers.github]
# url = "https://api.githubcopilot.com/mcp/"
# headers = { Authorization = "Bearer ${GITHUB_TOKEN}" }    # filled in when the server starts
# denied_tools = ["delete_*"]
"""


def find_target(explicit: str | Path | None) -> Path:
    """The `wicket.toml` to change: the named one, this folder's, or the user's; it need not exist.

    Raises ConfigError if the named file belongs to another program.
    """
    cwd = Path.cwd()
    named = explicit or os.environ.get(locate.CONFIG_VARIABLE)
    if named:
        path = cwd / Path(named).expanduser()
        if path.suffix != ".toml":
            raise ConfigError(
                "is not a wicket.toml, and Wicket changes only its own file.",
                file=str(path),
                hint=f"Import its servers with: wicket import {path}",
            )
        return path
    local = cwd / locate.CONFIG_NAME
    return local if local.is_file() else locate.config_folder() / locate.CONFIG_NAME


def read_or_start(path: Path) -> str:
    """The text of `wicket.toml`, or of a new one if there is none."""
    return read_text(path) if path.exists() else TEMPLATE


def save(path: Path, text: str) -> Config:
    """Write a checked `wicket.toml`. Raises ConfigError, and then nothing changed."""
    config = formats.parse(text, path)
    replace_file(path, text)
    return config


def add_server(text: str, server: ServerConfig, path: Path) -> str:
    """`text` with the server added. Raises ConfigError if its name is taken or invalid."""
    if not names.is_valid(server.name):
        raise ConfigError(f"'{server.name}' cannot be a server's name.", hint=f"Use '{names.derive(server.name)}'.")
    existing = {name.lower(): name for name in list_servers(text, path)}
    if server.name.lower() in existing:
        raise ConfigError(
            f"there is already a server '{existing[server.name.lower()]}'.",
            file=str(path),
            hint=f"Remove it with 'wicket remove {existing[server.name.lower()]}', or choose another name.",
        )
    return _edit(lambda: toml.add_table(text, ("servers", server.name), to_table(server)), path)


def merge_server(text: str, server: ServerConfig, path: Path) -> tuple[str, str, bool]:
    """`text` with the server added, under its own name or a numbered one; also that name, and whether it is new.

    An existing server that is started or reached in the same way stays unchanged.
    """
    present = list_servers(text, path)
    used_names = names.Names()
    for name, known in present.items():
        used_names.claim(name)
        number = name.removeprefix(f"{server.name}-")
        if (name == server.name or (number != name and number.isdecimal())) and _is_same(known, server, path.parent):
            return text, name, False
    name = used_names.claim(server.name)
    title = "" if server.title == server.name else server.title
    return add_server(text, msgspec.structs.replace(server, name=name, title=title), path), name, True


def _is_same(known: ServerConfig, offered: ServerConfig, folder: Path) -> bool:
    """Whether both are started or reached in the same way, including secrets that were moved to files."""
    plain = ("command", "args", "url", "cwd", "env_file")
    if any(getattr(known, option) != getattr(offered, option) for option in plain):
        return False
    return all(
        {name: _read_secret(value, folder) for name, value in own_values.items()} == offered_values
        for own_values, offered_values in ((known.env, offered.env), (known.headers, offered.headers))
    )


def _read_secret(value: str, folder: Path) -> str:
    match = _ASIDE.fullmatch(value)
    file = folder / match[1] if match else None
    return file.read_text("utf-8").rstrip("\n") if file is not None and file.is_file() else value


def remove_server(text: str, name: str, path: Path) -> str:
    """`text` without the server. Raises UnknownName."""
    known = _resolve_name(text, name, path)
    return _edit(lambda: toml.remove_table(text, ("servers", known)), path)


def set_enabled(text: str, name: str, enabled: bool, path: Path) -> str:
    """`text` with the server enabled or disabled. Raises UnknownName."""
    known = _resolve_name(text, name, path)
    return _edit(lambda: toml.set_key(text, ("servers", known), "enabled", enabled), path)


def set_profile(text: str, profile: str, servers: Iterable[str], path: Path) -> str:
    """`text` in which the profile also shows these servers."""
    known = next((known for known in formats.parse(text, path).profiles if known.name == profile), None)
    members = list(dict.fromkeys([*(known.servers if known else ()), *servers]))
    at = ("profiles", profile)
    if known is None:
        return _edit(lambda: toml.add_table(text, at, {"servers": members}), path)
    if tuple(members) == known.servers or (known.tools and not known.servers):  # its owner chose tools one by one
        return text
    return _edit(lambda: toml.set_key(text, at, "servers", members), path)


def list_servers(text: str, path: Path) -> dict[str, ServerConfig]:
    """The servers in `text` by name."""
    return {server.name: server for server in formats.parse(text, path).servers}


def to_table(server: ServerConfig) -> dict[str, Any]:
    """The content of `[servers.NAME]` for a server: everything that differs from the default."""
    table: dict[str, Any] = {}
    for name, option in options_of(ServerConfig).items():
        value = getattr(server, name)
        implied = {"title": server.name, "transport": "stdio" if server.command else "auto"}.get(name, option.default)
        if value not in (implied, None):
            table[name] = _render_duration(value) if option.unit == "duration" else value
    return table


def extract_secrets(server: ServerConfig, folder: Path) -> tuple[ServerConfig, dict[Path, str]]:
    """The server with its literal secrets as `${file:…}`, and the files that must hold them."""
    files: dict[Path, str] = {}
    changed: dict[str, dict[str, str]] = {"env": dict(server.env), "headers": dict(server.headers)}
    for option, name, value in literal_secrets(server):
        file = f"{SECRETS}/{server.name}.{names.derive(name)}"
        changed[option][name] = f"${{file:{file}}}"
        files[folder / file] = value
    return msgspec.structs.replace(server, **changed), files


def write_secrets(files: Mapping[Path, str]) -> None:
    """Write secret files that only the user can read, and keep them out of version control."""
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = path.parent / ".gitignore"
        if not ignore.exists():
            replace_file(ignore, "*\n")
        replace_file(path, f"{value}\n")


def _render_duration(value: float) -> Any:
    return units.spell_seconds(value) if value else 0


def _resolve_name(text: str, name: str, path: Path) -> str:
    servers = {known.lower(): known for known in list_servers(text, path)}
    if name.lower() not in servers:
        raise UnknownName(
            "server", name, nearest(name, servers.values()), hint=f"{path} has {', '.join(servers.values()) or 'none'}."
        )
    return servers[name.lower()]


def _edit(edit: Any, path: Path) -> str:
    try:
        return edit()
    except toml.Uneditable as problem:
        raise ConfigError(
            "is written in a way that Wicket cannot change safely.",
            file=str(path),
            line=problem.line,
            key=str(problem),
            hint="Write it as a [servers.NAME] table, or change it by hand.",
        ) from None
