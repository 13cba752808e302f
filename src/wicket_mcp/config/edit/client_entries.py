"""The entries of a client's file: its servers, adapted to work from another folder.

Paths that are relative to the client's file become absolute, references to secrets stay references, and an
entry that starts Wicket itself is left out. Reads files and changes none. `import_plan` and the command line call it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from wicket_mcp.config.edit.losses import describe_approvals, describe_unknown
from wicket_mcp.config.model.config import Config, HttpConfig
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.model.validation import InvalidOption, KeyPath, value_at
from wicket_mcp.config.read import formats, layouts, syntax
from wicket_mcp.config.read.client_files import ClientFile, Section
from wicket_mcp.errors import ConfigError

_FILE_REFERENCE = re.compile(r"\$\{file:(?!/|~)([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One server of a client's file, and its key there."""

    server: ServerConfig
    key: str


@dataclass(frozen=True, slots=True)
class ClientEntries:
    """A client's file as it was read. `section` is where its servers are; None if it lists none."""

    path: Path
    text: str = field(repr=False)
    syntax: str
    section: Section | None
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    has_wicket: bool = False
    """Whether the client already uses Wicket."""


def read_client(file: ClientFile) -> ClientEntries | None:
    """The file of a client; None if it does not exist. Raises ConfigError if it cannot be read."""
    if not file.path.is_file():
        return None
    text = read_text(file.path)
    tree, kind = _parse(text, file.path)
    listed = value_at(tree, file.section)
    if not listed:
        return ClientEntries(file.path, text, kind, None)
    if file.section[0] == "projects":
        config, outline = _translate({"mcpServers": listed}, kind, file.path)
    else:
        config, outline = formats.parse(text, file.path), layouts.translate(tree, _as_syntax(kind))
    return _collect(file.path, text, kind, file.section, config, outline, listed)


def read_any(path: Path) -> ClientEntries:
    """Any file that Wicket reads. Raises ConfigError."""
    config = formats.load(path)
    text = read_text(path)
    tree, kind = _parse(text, path)
    outline = layouts.translate(tree, _as_syntax(kind))
    at: KeyPath = outline.servers[0].at[:-1] if outline.servers else ()
    names = tuple(part for part in at if isinstance(part, str))
    by_name = all(isinstance(draft.at[-1], str) for draft in outline.servers)
    return _collect(path, text, kind, names if names and by_name else None, config, outline, value_at(tree, at))


def read_text(path: Path) -> str:
    try:
        # Bytes, not text: line endings stay unchanged.
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}.", file=str(path), hint="Check the file.") from None


def _collect(
    path: Path, text: str, kind: str, section: Section | None, config: Config, outline: layouts.Outline, listed: Any
) -> ClientEntries:
    entries: list[Entry] = []
    notes = list(config.notes)
    has_wicket = False
    drafts = {draft.name: draft for draft in outline.servers}  # more than servers, if one is invalid
    for server in config.servers:
        draft = drafts[server.name]
        if _is_wicket(server):
            has_wicket = True
        else:
            entries.append(Entry(_make_absolute(server, path.absolute().parent), str(draft.at[-1])))
            entry = value_at(listed, draft.at[-1:])
            if isinstance(entry, Mapping):
                listed_entry = cast("Mapping[str, Any]", entry)
                notes += describe_approvals(server.name, listed_entry)
                if outline.lenient:
                    notes += describe_unknown(server.name, listed_entry)
    return ClientEntries(path, text, kind, section, tuple(entries), tuple(notes), has_wicket)


def _is_wicket(server: ServerConfig) -> bool:
    """Whether an entry is Wicket itself: its command, also behind a launcher such as uvx, or its address here."""
    if server.url is not None:
        address = urlsplit(server.url)
        is_local = address.hostname in ("127.0.0.1", "localhost", "::1")
        is_ours = server.name == "wicket" or address.port == HttpConfig().port
        return is_local and is_ours and (address.path == "/mcp" or address.path.startswith("/mcp/"))
    words = [Path(word).name.removesuffix(".exe") for word in (server.command or "", *server.args)]
    if "serve" not in words[1:]:
        return False
    before = words[: words.index("serve", 1)]
    return words[0] == "wicket" or before[-1] == "wicket" or before[-2:] == ["-m", "wicket_mcp"]


def _make_absolute(server: ServerConfig, folder: Path) -> ServerConfig:
    """The server with all paths relative to its file's folder made absolute."""

    def absolute(path: str | None) -> str | None:
        return None if path is None else path if path.startswith(("~", "$")) else str(folder / path)

    def rebase(text: str) -> str:
        return _FILE_REFERENCE.sub(lambda match: f"${{file:{folder / match[1]}}}", text)

    return msgspec.structs.replace(
        server,
        command=_program(server, folder),
        cwd=absolute(server.cwd),
        env_file=absolute(server.env_file),
        args=tuple(map(rebase, server.args)),
        env={name: rebase(value) for name, value in server.env.items()},
        headers={name: rebase(value) for name, value in server.headers.items()},
    )


def _program(server: ServerConfig, folder: Path) -> str | None:
    """The command; one relative to the server's own folder is made absolute, unless its location is known only at
    start.
    """
    command, cwd = server.command, server.cwd or "."
    if command is None or not command.startswith(("./", "../")) or "$" in cwd:
        return command
    return os.path.normpath(folder / Path(cwd).expanduser() / command)


def _parse(text: str, path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        document = syntax.read(text)
    except InvalidOption:
        formats.parse(text, path)  # reports it with file and line
        raise
    tree = document.tree
    return (cast("Mapping[str, Any]", tree) if isinstance(tree, Mapping) else {}), document.syntax


def _translate(tree: Mapping[str, Any], kind: str, path: Path) -> tuple[Config, layouts.Outline]:
    config = Config.from_dict(tree)
    return msgspec.structs.replace(config, path=path), layouts.translate(tree, _as_syntax(kind))


def _as_syntax(kind: str) -> layouts.Syntax:
    return "toml" if kind == "toml" else "yaml" if kind == "yaml" else "json"
