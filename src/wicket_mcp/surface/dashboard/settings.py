"""The Settings page: every option with its value and its source, and what to paste into a client. Pure.

Values that may be secret are shown only as the references that the file has. Nothing can be changed here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct

from wicket_mcp.codec import pretty
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.options import options_of
from wicket_mcp.surface.dashboard.option_sources import source_of
from wicket_mcp.telemetry.redact import MASK, is_secret_name

_SECRET_MAPS = frozenset({"env", "headers"})


class Row(NamedTuple):
    """One option."""

    name: str
    value: str
    source: str


class Client(NamedTuple):
    """A client, and what connects it: a command, or a part of its file."""

    id: str
    name: str
    place: str
    text: str


def sections_of(config: Config, path: Path | None, lines: Mapping[str, int]) -> dict[str, list[Row]]:
    """The options by section; a server, a profile or a rule has its own, with the options that it sets."""
    sections: dict[str, list[Row]] = {"": []}
    for name in options_of(type(config)):
        value: Any = getattr(config, name)
        if isinstance(value, Struct):
            _add_section(sections, name, value, path, lines)
        else:
            source = source_of(config, name, "", path, lines)
            sections[""].append(Row(name, _render(name, value), source))
    for name in ("servers", "profiles"):
        _add_entries(sections, name, getattr(config, name), path, lines)
    return sections


def _add_section(
    sections: dict[str, list[Row]], section: str, value: Struct, path: Path | None, lines: Mapping[str, int]
) -> None:
    rows = sections.setdefault(section, [])
    for option in options_of(type(value)):
        content: Any = getattr(value, option)
        if isinstance(content, Struct):
            _add_section(sections, f"{section}.{option}", content, path, lines)
        elif _is_entries(content):
            listed = f"{section}.{option}" if f"{section}.{option}" in lines else section  # [[policy]] has only rules
            _add_entries(sections, listed, content, path, lines)
        else:
            rows.append(Row(option, _render(option, content), source_of(value, option, section, path, lines)))


def _add_entries(
    sections: dict[str, list[Row]], section: str, value: Any, path: Path | None, lines: Mapping[str, int]
) -> None:
    """What each entry of a list sets; what it leaves out has the default."""
    if not _is_entries(value):
        return
    for number, entry in enumerate(cast("Sequence[Struct]", value)):
        label = str(getattr(entry, "name", "") or number)
        where = f"{section}.{label}"
        if f"{section}.{number}" in lines and where not in lines:
            where = f"{section}.{number}"
        sections[f"{section}.{label}"] = [
            Row(option, _render(option, content), source)
            for option in options_of(type(entry))
            if (not lines or f"{where}.{option}" in lines)
            and (source := source_of(entry, option, where, path, lines)) != "default"
            and not isinstance(content := getattr(entry, option), Struct)
        ]
        for option in options_of(type(entry)):
            if isinstance(content := getattr(entry, option), Struct) and content != type(content)():
                _add_section(sections, f"{where}.{option}", content, path, lines)


def _is_entries(value: Any) -> bool:
    entries = cast("Sequence[Any]", value if isinstance(value, tuple) else ())
    return len(entries) > 0 and isinstance(entries[0], Struct)


def _render(name: str, value: Any) -> str:
    """A value as the file would show it. A possible secret is masked, unless it is only a reference."""
    if value in (None, (), {}, ""):
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return ", ".join(f"{key} = {_render_entry(name, key, entry)}" for key, entry in pairs)
    if isinstance(value, tuple):
        entries = cast("Sequence[Any]", value)
        plain = all(isinstance(entry, str | int | float) for entry in entries)
        return ", ".join(_hide(name, str(entry)) for entry in entries) if plain else f"{len(entries)} entries"
    return _hide(name, str(value))


def _render_entry(option: str, key: str, value: Any) -> str:
    if option in _SECRET_MAPS:
        return str(value) if "${" in str(value) else MASK
    return _hide(key, ", ".join(map(str, cast("Sequence[Any]", value))) if isinstance(value, tuple) else str(value))


def _hide(name: str, text: str) -> str:
    return MASK if is_secret_name(name) and not text.startswith("${") and name != "key" else text


def clients_of(address: str, *, token: bool) -> list[Client]:
    """What connects each client to us; `token` tells whether one is needed."""
    flag = ' --header "Authorization: Bearer TOKEN"' if token else ""
    headers = {"headers": {"Authorization": "Bearer TOKEN"}} if token else {}
    entry = {"type": "http", "url": address, **headers}
    variable = " --bearer-token-env-var WICKET_TOKEN" if token else ""
    add = f"mcp add --scope user --transport http wicket {address}{flag}"
    return [
        Client("claude-code", "Claude Code", "in a shell", f"claude {add}"),
        Client("codex", "Codex", "in a shell", f"codex mcp add wicket --url {address}{variable}"),
        Client("gemini", "Gemini CLI", "in a shell", f"gemini {add}"),
        Client("cursor", "Cursor", "~/.cursor/mcp.json", pretty({"mcpServers": {"wicket": {**entry}}})),
        Client("vscode", "VS Code", "mcp.json of the user or the project", pretty({"servers": {"wicket": entry}})),
        Client("other", "Any other client", "its file", pretty({"mcpServers": {"wicket": entry}})),
    ]
