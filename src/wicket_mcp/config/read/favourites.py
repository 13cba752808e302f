"""The tools to show by name: `tools.overrides.json` and `tools.registry.json` beside the configuration.

    {"overrides": [{"name": "search_vectors", "server": "qdrant", "tool": "search", "title": "…", "description": "…"}]}
    {"tools": [{"name": "github.create_issue", "server": "github"}]}

A missing file is an empty list. If both name a tool, the override counts.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from wicket_mcp.config.model.validation import InvalidOption, KeyPath, render_path
from wicket_mcp.config.read import syntax
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import as_list, as_object

OVERRIDES, REGISTRY = "tools.overrides.json", "tools.registry.json"


class Favourite(Struct, frozen=True, kw_only=True):
    """One tool of a server, under a name of the user's choice."""

    name: str
    server: str
    tool: str
    """The server's own name for it."""
    title: str = ""
    description: str = ""


def favourites(folder: Path) -> tuple[Favourite, ...]:
    """Overrides first, then the additions of the registry. Raises ConfigError."""
    by_name: dict[str, Favourite] = {}
    for name, section in ((OVERRIDES, "overrides"), (REGISTRY, "tools")):
        for favourite in _read(folder / name, section):
            by_name.setdefault(favourite.name, favourite)
    return tuple(by_name.values())


def _read(path: Path, section: str) -> list[Favourite]:
    try:
        document = syntax.read(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}.", file=str(path), hint="Check the file.") from None
    except InvalidOption as problem:
        raise ConfigError(problem.message, file=str(path), line=problem.line, hint=problem.hint) from None
    try:
        listed: Any = as_object(document.tree).get(section, [])
        if not isinstance(listed, list):
            raise InvalidOption((section,), "expected a list of tools.")
        return [_favourite(entry, (section, index)) for index, entry in enumerate(as_list(listed))]
    except InvalidOption as problem:
        line = document.line(problem.path)
        raise ConfigError(
            problem.message, file=str(path), line=line, key=render_path(problem.path), hint=problem.hint
        ) from None


def _favourite(entry: Any, at: KeyPath) -> Favourite:
    options = as_object(entry)
    for key in ("name", "server", "tool", "title", "description"):
        if not isinstance(options.get(key, ""), str):
            raise InvalidOption((*at, key), "expected a string.")
    name, server = options.get("name", ""), options.get("server", "")
    if not name or not server:
        raise InvalidOption(
            at, "needs a 'name' and a 'server'.", "'tool' is what the server calls it, where that differs."
        )
    return Favourite(
        name=name,
        server=server,
        tool=options.get("tool") or name.removeprefix(f"{server}."),
        title=options.get("title", ""),
        description=options.get("description", ""),
    )
