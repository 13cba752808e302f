"""The layouts of programs' lists of servers, each converted to Wicket's own.

Plain data in (what `syntax` read, or a dict), an `Outline` out: nothing is checked here beyond what is needed to find
the servers, and every value remembers the key it came from, so that an error can point at the user's own file. The
content shows which layout it is: `mcpServers`, `mcp_servers`, `mcpClients`, `context_servers`, `backends`, `servers`,
`extensions` (Goose), `mcp` (opencode). The vocabulary of the entries is in `clients`.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from wicket_mcp.config.model import names
from wicket_mcp.config.model.validation import InvalidOption, KeyPath, render_path, value_at
from wicket_mcp.config.read import clients

Syntax: TypeAlias = Literal["toml", "json", "yaml", "object"]

_SECTIONS: tuple[KeyPath, ...] = (
    ("mcpServers",),
    ("mcp_servers",),
    ("mcpClients",),
    ("context_servers",),
    ("backends",),
    ("mcp", "servers"),
    ("servers",),
    ("extensions",),
    ("mcp",),
)


class Draft(msgspec.Struct):
    """A server as in the file, with Wicket's names for its options."""

    name: str
    at: KeyPath
    values: dict[str, Any]
    sources: dict[str, KeyPath] = msgspec.field(default_factory=dict[str, KeyPath])
    """Where an option is below `at`, if the file has another name for it."""

    def relocate(self, problem: InvalidOption) -> InvalidOption:
        head, tail = problem.path[:1], problem.path[1:]
        source = self.sources.get(str(head[0]), head) if head else ()
        return InvalidOption((*self.at, *source, *tail), problem.message, problem.hint)


class Outline(msgspec.Struct):
    """A whole file: its servers in order, and Wicket's options."""

    servers: list[Draft]
    options: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    lenient: bool = True
    """Whether unknown keys are ignored, because the file belongs to another program."""
    sources: dict[KeyPath, KeyPath] = msgspec.field(default_factory=dict[KeyPath, KeyPath])
    notes: list[str] = msgspec.field(default_factory=list[str])

    def relocate(self, problem: InvalidOption) -> InvalidOption:
        return InvalidOption(self.sources.get(problem.path, problem.path), problem.message, problem.hint)


def translate(tree: Any, syntax: Syntax) -> Outline:
    """Find out which layout `tree` has and convert it. Raises InvalidOption."""
    if not isinstance(tree, Mapping):
        raise InvalidOption((), "holds no configuration: expected a table of settings at the top.", _WANTED)
    top = cast("Mapping[str, Any]", tree)
    sections = [section for section in _SECTIONS if _lists_servers(top, section)]
    if syntax in {"toml", "object"} and _is_ours(top, sections, syntax):
        return _own(top)
    if not sections:
        raise InvalidOption((), "lists no servers.", _WANTED)
    return _foreign(top, sections[0])


_WANTED = (
    "Wicket reads its own TOML ([servers.NAME]) and other programs' files with a section named mcpServers, "
    "servers, context_servers, mcpClients, mcp_servers, backends, extensions or mcp."
)


def _lists_servers(top: Mapping[str, Any], section: KeyPath) -> bool:
    """Whether the section exists. `mcp` (opencode) and `extensions` (Goose) mean other things in other files."""
    listed = value_at(top, section)
    if section not in (("mcp",), ("extensions",)):
        return listed is not None
    entries: Iterable[Any] = cast("Mapping[str, Any]", listed).values() if isinstance(listed, Mapping) else ()
    return any(isinstance(entry, Mapping) and "type" in entry for entry in entries)


def _is_ours(top: Mapping[str, Any], sections: list[KeyPath], syntax: Syntax) -> bool:
    if "servers" in top:
        return syntax == "toml" or isinstance(top["servers"], Mapping)
    return not sections


def _own(top: Mapping[str, Any]) -> Outline:
    listed = top.get("servers", {})
    if not isinstance(listed, Mapping):
        raise InvalidOption(
            ("servers",), "expected a table for each server.", "Write [servers.NAME] above its options."
        )
    used_names = names.Names()
    drafts: list[Draft] = []
    for name, entry in cast("Mapping[str, Any]", listed).items():
        at: KeyPath = ("servers", name)
        if not names.is_valid(name):
            raise InvalidOption(
                at,
                "a server's name is 1 to 64 letters, digits, '_', '-' and '.', the first a letter or digit.",
                f"Use '{names.derive(name)}', and title = \"…\" for the name to show.",
            )
        if (other := used_names.holder(name)) is not None:
            raise InvalidOption(
                at, f"differs from the server '{other}' only in upper and lower case.", "Rename one of them."
            )
        used_names.claim(name)
        drafts.append(Draft(name, at, dict(_entry(entry, at))))
    options = {key: value for key, value in top.items() if key not in {"servers", "$schema"}}
    return Outline(drafts, options, lenient=False)


def _foreign(top: Mapping[str, Any], section: KeyPath) -> Outline:
    outline = Outline([])
    used_names = names.Names()
    vocabulary = clients.Vocabulary(top)
    for name, (at, entry) in _usable_entries(value_at(top, section), section, outline).items():
        if (reason := clients.explain_unsupported(entry)) is not None:
            outline.notes.append(f"'{name}' is left out: {reason}")
            continue
        words = vocabulary.translate(name, entry)
        draft = Draft(used_names.claim(name), at, words.values, words.sources)
        if draft.name != name:
            draft.values.setdefault("title", name)
            outline.notes.append(f"'{name}' is called '{draft.name}' here, because tools are named after it.")
        outline.servers.append(draft)
    _global_options(top, section, outline)
    return outline


def _usable_entries(listed: Any, section: KeyPath, outline: Outline) -> dict[str, tuple[KeyPath, Mapping[str, Any]]]:
    """The servers of a section: a table by name, or a list whose entries have an `id` or a `name`. An entry that is no
    server is noted and skipped, if others remain: it must not fail the whole file.
    """
    if isinstance(listed, Mapping):
        entries = list(cast("Mapping[str, Any]", listed).items())
    elif isinstance(listed, list):
        entries = list(enumerate(cast("list[Any]", listed)))
    else:
        raise InvalidOption(section, "expected the servers, as a table by name or as a list.")
    usable: dict[str, tuple[KeyPath, Mapping[str, Any]]] = {}
    problems: list[InvalidOption] = []
    for key, value in entries:
        try:
            entry = _entry(value, (*section, key))
            name = key if isinstance(key, str) else _name_in_list(entry, (*section, key), usable)
        except InvalidOption as problem:
            problems.append(problem)
        else:
            usable[name] = (*section, key), entry
    if problems and not usable:
        raise problems[0]
    outline.notes += [
        f"'{render_path(problem.path)}' is left out: {problem.message} {problem.hint}".strip() for problem in problems
    ]
    return usable


def _name_in_list(entry: Mapping[str, Any], at: KeyPath, others: Container[str]) -> str:
    key = "id" if "id" in entry else "name"
    name = entry.get(key)
    if not isinstance(name, str) or not name:
        raise InvalidOption((*at, key) if key in entry else at, "expected an 'id', as a string that is not empty.")
    if name in others:
        raise InvalidOption((*at, key), f"there is another server '{name}' above.", "Give each its own id.")
    return name


def _entry(entry: Any, at: KeyPath) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return cast("Mapping[str, Any]", entry)
    raise InvalidOption(at, "expected a table with a 'command' or a 'url'.")


def _global_options(top: Mapping[str, Any], section: KeyPath, outline: Outline) -> None:
    """The few settings of other gateways that mean the same here."""
    options: dict[str, Any] = {}
    if section == ("mcpClients",):
        http = {key: top[key] for key in ("host", "port") if top.get(key) is not None}
        options["http"] = http
        outline.sources = {("http", key): (key,) for key in http}
    if section == ("backends",) and isinstance(top.get("aliases"), Mapping):
        options["aliases"] = top["aliases"]
    level = top.get("log_level")
    if section == ("backends",) and isinstance(level, str):
        options["log_level"] = {"trace": "debug", "warn": "warning"}.get(level.lower(), level.lower())
    outline.options = options
