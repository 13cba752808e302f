"""Claude Desktop's own list of servers: shown with its secrets masked, added to, and taken from.

The file belongs to another program: everything in it that is not the entry in question stays, a file that cannot
be understood is never written, and a write replaces it in one step.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode, pretty
from wicket_mcp.config.read.client_files import CLIENTS, folders, user_files
from wicket_mcp.errors import BadArguments, ConfigError, UnknownName
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.telemetry.log import MASK
from wicket_mcp.upstream.egress import shown

_SECRET = re.compile(r"(?i)(token|key|secret|passw|auth|credential|bearer|cookie|pat\b)")
_LONG = 24  # a word this long without a slash, dot or space is more likely a key than a name


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where Claude Desktop keeps its configuration on this platform."""
    return user_files(CLIENTS["claude-desktop"], folders(environ))[0].path


def servers(path: Path) -> list[JsonObject]:
    """The entries, with every value that may be a secret masked."""
    found = as_object(_read(path).get("mcpServers"))
    return [_shown(name, as_object(entry)) for name, entry in found.items()]


def put(path: Path, name: str, entry: JsonObject) -> None:
    """Add an entry. Raises BadArguments when there is one of that name."""
    content = _read(path)
    known = as_object(content.get("mcpServers"))
    if name in known:
        raise BadArguments(
            f"Server '{name}' already exists in Claude Desktop's config.", hint="Use remove_claude_server first."
        )
    _write(path, {**content, "mcpServers": {**known, name: entry}})


def remove(path: Path, name: str) -> None:
    """Take an entry out. Raises UnknownName."""
    content = _read(path)
    known = as_object(content.get("mcpServers"))
    if name not in known:
        raise UnknownName("server", name, hint="It is not in Claude Desktop's config; see list_claude_servers.")
    _write(path, {**content, "mcpServers": {key: entry for key, entry in known.items() if key != name}})


def _read(path: Path) -> JsonObject:
    try:
        content: Any = decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise ConfigError(f"cannot be read: {problem}", file=str(path), hint="Mend the file by hand.") from None
    if not isinstance(content, dict) or not isinstance(as_object(content).get("mcpServers", {}), dict):
        raise ConfigError("is not Claude Desktop's configuration", file=str(path), hint="Mend the file by hand.")
    return as_object(content)


def _write(path: Path, content: JsonObject) -> None:
    path = path.resolve()
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{pretty(content)}\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError as problem:
        raise ConfigError(f"cannot be written: {problem}", file=str(path), hint="Check its permissions.") from None


def _shown(name: str, entry: JsonObject) -> JsonObject:
    shown_entry: JsonObject = {"name": name, "mode": "direct"}
    if "url" in entry:
        shown_entry["url"] = shown(str(entry["url"]))
    if "command" in entry:
        shown_entry["command"] = str(entry["command"])
        shown_entry["args"] = masked([str(argument) for argument in as_list(entry.get("args"))])
    for key in ("env", "headers"):
        if as_object(entry.get(key)):
            shown_entry[key] = dict.fromkeys(as_object(entry[key]), MASK)
    return shown_entry


def masked(arguments: list[str]) -> list[str]:
    """Arguments without what follows a word that announces a secret, or looks like one itself."""
    safe: list[str] = []
    announced = False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        if announced and not argument.startswith("-"):
            safe.append(MASK)
            announced = False
            continue
        announced = argument.startswith("-") and not equals and bool(_SECRET.search(argument))
        if equals and _SECRET.search(flag):
            safe.append(f"{flag}={MASK}")
        elif "://" in argument:
            safe.append(shown(argument))
        elif len(argument) >= _LONG and re.fullmatch(r"[A-Za-z0-9_+=-]+", argument):
            safe.append(MASK)
        else:
            safe.append(argument)
    return safe
