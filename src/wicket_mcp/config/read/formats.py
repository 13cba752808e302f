"""Reads a configuration file, of Wicket or another program, into a `Config`.

`load` and `parse` combine the steps: text to data (`syntax`), data to Wicket's option names (`layouts`), and those to
checked options (`model`). An InvalidOption from any of them becomes a ConfigError with file, line and key. Nothing is
expanded or started: a missing secret is not an error until its server is (`secrets`).
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.validation import InvalidOption, render_path, value_at
from wicket_mcp.config.read import folder_trust, layouts, syntax
from wicket_mcp.config.read.clients import own_options
from wicket_mcp.config.read.favourites import favourites
from wicket_mcp.config.read.locate import CONFIG_NAME, config_folder
from wicket_mcp.errors import ConfigError

_LARGEST = 64 * 1024**2


def load(path: str | Path, *, discovered: bool = False) -> Config:
    """Read the configuration file at `path`, and the favourites beside it. Raises ConfigError.

    A file that was `discovered` in a folder, rather than named by the user, is used only with approval: without it the
    configuration is empty and says why.
    """
    path = Path(path).expanduser()
    content = read_bytes(path)
    if discovered and not folder_trust.is_trusted(path, folder_trust.digest(path, content)):
        return Config(path=path, discovered=True, untrusted=folder_trust.explain(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text.", file=str(path), hint="Save it as UTF-8.") from None
    config = parse(text, path)
    return msgspec.structs.replace(config, favourites=favourites(config.base_dir), discovered=discovered)


def fall_back(config: Config) -> Config:
    """The user's own configuration, if they have one and the folder's is not trusted; a note says so."""
    own = config_folder() / CONFIG_NAME
    if not config.untrusted or not own.is_file():
        return config
    words = (
        f"{config.path} was found in this folder and is not trusted: {own} is used instead. To use the folder's, read "
        f"it, then run: wicket trust {config.path}"
    )
    other = load(own)
    return msgspec.structs.replace(other, notes=(*other.notes, words))


def read_bytes(path: Path) -> bytes:
    """The content of a configuration file. Raises ConfigError."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError("is too large to be a configuration.", file=str(path), hint="Check the path.")
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError("does not exist.", file=str(path), hint="Check the path.") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}."
        raise ConfigError(problem, file=str(path), hint="Check the path and its permissions.") from None
    except ValueError as error:  # a path with a NUL in it
        raise ConfigError(f"is not a path: {error}.", file=repr(str(path)), hint="Check the path.") from None


def parse(text: str, path: str | Path | None = None) -> Config:
    """Read a configuration from its text; `path` is where it came from, for relative paths and errors.

    Raises ConfigError.
    """
    path = None if path is None else Path(path)
    file = str(path or "")
    try:
        document = syntax.read(text)
    except InvalidOption as problem:
        raise ConfigError(
            problem.message, file=file, line=problem.line, key=render_path(problem.path), hint=problem.hint
        ) from None
    try:
        outline = layouts.translate(document.tree, document.syntax)
        _check_repeated(outline, document)
        outline.notes += _name_ineffective(outline, document, file)
        return Config.from_outline(outline, path)
    except InvalidOption as problem:
        line = problem.line or document.line(problem.path)
        raise ConfigError(
            problem.message, file=file, line=line, key=render_path(problem.path), hint=problem.hint
        ) from None


def _check_repeated(outline: layouts.Outline, document: syntax.Document) -> None:
    """Raises InvalidOption for a name that occurs twice; in another program's file, the last one counts, as there."""
    for draft in outline.servers:
        if (line := document.repeated.get(draft.at)) is None:
            continue
        if not outline.lenient:
            raise InvalidOption(draft.at, "there is another server of this name above.", "Rename one of them.", line)
        outline.notes.append(f"'{draft.name}' is there twice: the one in line {line} counts.")


def _name_ineffective(outline: layouts.Outline, document: syntax.Document, file: str) -> Iterator[str]:
    """Wicket's own options in another program's file: whoever wrote them relies on them."""
    if not outline.lenient:
        return
    listed = [
        ((*draft.at, key), f"{key} of '{draft.name}'")
        for draft in outline.servers
        for key in own_options(value_at(document.tree, draft.at) or {})
    ]
    if isinstance(value_at(document.tree, ("policy",)), list | dict):
        listed.append((("policy",), "policy"))
    for path, option in listed:
        where = ":".join(str(part) for part in (file, document.line(path)) if part)
        yield f"{where}: {option} has no effect in this file. Set it in a wicket.toml: wicket import {file} makes one."
