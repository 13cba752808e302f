"""Claude Desktop's own list of servers: shows it with masked secrets, adds entries and removes them.

The file belongs to another program: everything except the entry in question stays, including comments; a file that
cannot be parsed is never written; and a write replaces it atomically. Called by the registry's facade.
"""

from collections.abc import Mapping
from pathlib import Path

from wicket_mcp.codec import pretty
from wicket_mcp.config.edit import jsonc
from wicket_mcp.config.model.validation import InvalidOption
from wicket_mcp.config.read import syntax
from wicket_mcp.config.read.client_files import CLIENTS, folders, user_files
from wicket_mcp.errors import BadArguments, ConfigError, UnknownName
from wicket_mcp.files import replace_file
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.telemetry.redact import MASK, mask_arguments, mask_url

_SECTION = "mcpServers"
_MEND = "Correct the file by hand."


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where Claude Desktop keeps its configuration on this platform."""
    return user_files(CLIENTS["claude-desktop"], folders(environ))[0].path


def servers(path: Path) -> list[JsonObject]:
    """The entries, with every value that may be a secret masked."""
    _, content = _read(path)
    return [_mask_entry(name, as_object(entry)) for name, entry in as_object(content.get(_SECTION)).items()]


def put(path: Path, name: str, entry: JsonObject) -> None:
    """Add an entry. Raises BadArguments if the name exists."""
    text, content = _read(path)
    if name in as_object(content.get(_SECTION)):
        raise BadArguments(
            f"Server '{name}' already exists in Claude Desktop's config.", hint="Use remove_claude_server first."
        )
    if not text.strip():
        changed = f"{pretty({_SECTION: {name: entry}})}\n"
    elif _SECTION in content:
        changed = jsonc.set_member(text, (_SECTION,), name, entry)
    else:
        changed = jsonc.set_member(text, (), _SECTION, {name: entry})
    replace_file(path, changed)


def remove(path: Path, name: str) -> None:
    """Remove an entry. Raises UnknownName."""
    text, content = _read(path)
    if name not in as_object(content.get(_SECTION)):
        raise UnknownName("server", name, hint="It is not in Claude Desktop's config; see list_claude_servers.")
    replace_file(path, jsonc.remove_members(text, (_SECTION,), [name]))


def _read(path: Path) -> tuple[str, JsonObject]:
    """The file's text and data; both empty if it does not exist."""
    try:
        text = path.read_bytes().decode("utf-8")
        document = syntax.read(text) if text.strip() else None
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError) as problem:
        raise ConfigError(f"cannot be read: {problem}", file=str(path), hint=_MEND) from None
    except InvalidOption as problem:
        raise ConfigError(f"cannot be read: {problem.message}", file=str(path), line=problem.line, hint=_MEND) from None
    if document is None:
        return text, {}
    content = document.tree
    is_json = document.syntax not in ("toml", "yaml")
    if not is_json or not isinstance(content, dict) or not isinstance(as_object(content).get(_SECTION, {}), dict):
        raise ConfigError("is not Claude Desktop's configuration", file=str(path), hint=_MEND)
    return text, as_object(content)


def _mask_entry(name: str, entry: JsonObject) -> JsonObject:
    masked: JsonObject = {"name": name, "mode": "direct"}
    if "url" in entry:
        masked["url"] = mask_url(str(entry["url"]))
    if "command" in entry:
        masked["command"] = str(entry["command"])
        masked["args"] = mask_arguments([str(argument) for argument in as_list(entry.get("args"))])
    for key in ("env", "headers"):
        if as_object(entry.get(key)):
            masked[key] = dict.fromkeys(as_object(entry[key]), MASK)
    return masked
