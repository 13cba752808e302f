"""What a client's file offers for `wicket.toml`: its servers, made to work from another folder.

Paths that are relative to the client's file become absolute, references to secrets stay references, and an
entry that starts Wicket itself is passed over. Reads files and changes none.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.model.validation import KeyPath, Misfit
from wicket_mcp.config.read import formats, layouts, syntax
from wicket_mcp.config.read.client_files import ClientFile, Section
from wicket_mcp.errors import ConfigError

_FILE_REFERENCE = re.compile(r"\$\{file:(?!/|~)([^}]*)\}")
_WORDS = re.compile(r"[A-Za-z]+")
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "cookie", "credential", "credentials", "key", "pass", "passwd", "password"}
    | {"pat", "pwd", "secret", "token"}
)
_SHORTEST_SECRET = 6


@dataclass(frozen=True, slots=True)
class Offer:
    """One server of a client's file, and the key under which it stands there."""

    server: ServerConfig
    key: str


@dataclass(frozen=True, slots=True)
class Intake:
    """A client's file as it was read. `section` is where its servers stand; None when it lists none."""

    path: Path
    text: str = field(repr=False)
    syntax: str
    section: Section | None
    offers: tuple[Offer, ...] = ()
    notes: tuple[str, ...] = ()
    has_wicket: bool = False
    """Whether the client talks to Wicket already."""


def read_client(file: ClientFile) -> Intake | None:
    """The file of a client; None when it does not exist. Raises ConfigError when it cannot be read."""
    if not file.path.is_file():
        return None
    text = read_text(file.path)
    tree, kind = _parsed(text, file.path)
    listed = _dig(tree, file.section)
    if not listed:
        return Intake(file.path, text, kind, None)
    if file.section[0] == "projects":
        config, outline = _translated({"mcpServers": listed}, kind, file.path)
    else:
        config, outline = formats.parse(text, file.path), layouts.translate(tree, _as_syntax(kind))
    return _intake(file.path, text, kind, file.section, config, outline)


def read_any(path: Path) -> Intake:
    """Any file that Wicket reads. Raises ConfigError."""
    config = formats.load(path)
    text = read_text(path)
    tree, kind = _parsed(text, path)
    outline = layouts.translate(tree, _as_syntax(kind))
    at: KeyPath = outline.servers[0].at[:-1] if outline.servers else ()
    names = tuple(part for part in at if isinstance(part, str))
    by_name = all(isinstance(draft.at[-1], str) for draft in outline.servers)
    return _intake(path, text, kind, names if names and by_name else None, config, outline)


def read_text(path: Path) -> str:
    try:
        # Bytes, not text: line ends stay as they are.
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}.", file=str(path), hint="Check the file.") from None


def literal_secrets(server: ServerConfig) -> Iterator[tuple[str, str, str]]:
    """What looks like a secret and stands there as it is: option (`env` or `headers`), name, value."""
    for option, values in (("env", server.env), ("headers", server.headers)):
        for name, value in values.items():
            words = {word.lower() for word in _WORDS.findall(name)}
            if words & _SECRET_WORDS and "${" not in value and len(value) >= _SHORTEST_SECRET:
                yield option, name, value


def _intake(
    path: Path, text: str, kind: str, section: Section | None, config: Config, outline: layouts.Outline
) -> Intake:
    offers: list[Offer] = []
    has_wicket = False
    for server, draft in zip(config.servers, outline.servers, strict=True):
        if _is_wicket(server):
            has_wicket = True
        else:
            offers.append(Offer(_from_anywhere(server, path.absolute().parent), str(draft.at[-1])))
    return Intake(path, text, kind, section, tuple(offers), config.notes, has_wicket)


def _is_wicket(server: ServerConfig) -> bool:
    program = Path(server.command or "").name.removesuffix(".exe")
    return "serve" in server.args and (program == "wicket" or server.args[:2] == ("-m", "wicket_mcp"))


def _from_anywhere(server: ServerConfig, folder: Path) -> ServerConfig:
    """The server with every path that starts at its file's folder written out."""

    def absolute(path: str | None) -> str | None:
        return None if path is None else path if path.startswith(("~", "$")) else str(folder / path)

    def rebased(text: str) -> str:
        return _FILE_REFERENCE.sub(lambda found: f"${{file:{folder / found[1]}}}", text)

    return msgspec.structs.replace(
        server,
        command=_program(server, folder),
        cwd=absolute(server.cwd),
        env_file=absolute(server.env_file),
        args=tuple(map(rebased, server.args)),
        env={name: rebased(value) for name, value in server.env.items()},
        headers={name: rebased(value) for name, value in server.headers.items()},
    )


def _program(server: ServerConfig, folder: Path) -> str | None:
    """The command; one that starts at the server's own folder is written out, unless only its start tells where."""
    command, cwd = server.command, server.cwd or "."
    if command is None or not command.startswith(("./", "../")) or "$" in cwd:
        return command
    return os.path.normpath(folder / Path(cwd).expanduser() / command)


def _parsed(text: str, path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        document = syntax.read(text)
    except Misfit:
        formats.parse(text, path)  # says it with file and line
        raise
    tree = document.tree
    return (cast("Mapping[str, Any]", tree) if isinstance(tree, Mapping) else {}), document.syntax


def _translated(tree: Mapping[str, Any], kind: str, path: Path) -> tuple[Config, layouts.Outline]:
    config = Config.from_dict(tree)
    return msgspec.structs.replace(config, path=path), layouts.translate(tree, _as_syntax(kind))


def _as_syntax(kind: str) -> layouts.Syntax:
    return "toml" if kind == "toml" else "yaml" if kind == "yaml" else "json"


def _dig(tree: Mapping[str, Any], path: Section) -> Any:
    found: Any = tree
    for key in path:
        found = cast("Mapping[Any, Any]", found).get(key) if isinstance(found, Mapping) else None
    return found
