"""Other programs' names for a server's options.

One vocabulary serves them all (Claude, Cursor, Windsurf, Cline, Gemini CLI, VS Code, Zed, Codex, opencode, Goose, other
gateways), because no two of them use one name for different things, except for the unit of `timeout`. Keys without a
meaning for Wicket, such as approvals and window settings, are ignored; an import names them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.model.units import seconds
from wicket_mcp.config.model.validation import KeyPath

Convert: TypeAlias = Callable[[Any], Any]

_LONGEST_TIMEOUT = 3600
"""No client allows a longer timeout in seconds, so a larger `timeout` is in milliseconds."""

_TRANSPORTS = {
    "local": "stdio",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "auto",
}
_PART_OF_THE_CLIENT = {"builtin", "frontend", "inline_python", "platform"}
_UNSUPPORTED = {"cli-adapter", "inprocess", "sdk", "tcp", "websocket", "ws"}
_BARE_VARIABLE = re.compile(r"((?:Bearer )?)\$([A-Z_][A-Z0-9_]*)")
_SECRETREF = re.compile(r"secretref:[a-z]++:(?:[A-Za-z0-9_]*+[^\sA-Za-z0-9_\"']++)*+[0-9]*+([A-Za-z_][A-Za-z0-9_]*+)?")
_BRACED = re.compile(r"(?<!\$)\{(env|file):([^{}]+)\}")
_INPUT = re.compile(r"\$\{input:([^{}:]+)\}")


def _same(value: Any) -> Any:
    return value


def _variable(match: re.Match[str]) -> str:
    return f"${{env:{match[1]}}}" if match[1] else match[0]


def _invert(value: Any) -> Any:
    return (not value) if isinstance(value, bool) else value


def _transport(value: Any) -> Any:
    return _TRANSPORTS.get(value.lower(), value.lower()) if isinstance(value, str) else value


def _timeout(value: Any) -> Any:
    return _milliseconds(value) if isinstance(value, int | float) and value > _LONGEST_TIMEOUT else value


def _milliseconds(value: Any) -> Any:
    return f"{value}ms" if isinstance(value, int | float) else value


def _concurrency(value: Any) -> Any:
    # In Gatemini 0 means no limit, and 10000 is its maximum.
    return 10_000 if value == 0 else value


def _per_minute(value: Any) -> Any:
    """Gatemini's `rate_limit: {max_calls: 10, window: 60s}` as calls per minute, at least one."""
    rate: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    calls = rate.get("max_calls", 0)
    try:
        window = seconds(rate.get("window", 60))
    except ValueError:
        return rate.get("window")  # the checker reports what is wrong with it
    return max(1, round(calls * 60 / window)) if isinstance(calls, int) and calls and window else calls


def _tools(value: Any) -> Any:
    """In Goose an empty list means all."""
    return ["*"] if value == [] else value


def _isolation(value: Any) -> Any:
    return {"dedicated": "session"}.get(value, value) if isinstance(value, str) else value


WORDS: dict[str, tuple[str, Convert]] = {
    "command": ("command", _same),
    "cmd": ("command", _same),
    "args": ("args", _same),
    "env": ("env", _same),
    "environment": ("env", _same),
    "envs": ("env", _same),
    "envFile": ("env_file", _same),
    "cwd": ("cwd", _same),
    "url": ("url", _same),
    "serverUrl": ("url", _same),
    "uri": ("url", _same),
    "httpUrl": ("url", _same),
    "headers": ("headers", _same),
    "http_headers": ("headers", _same),
    "type": ("transport", _transport),
    "transportType": ("transport", _transport),
    "transport": ("transport", _transport),
    "enabled": ("enabled", _same),
    "disabled": ("enabled", _invert),
    "description": ("description", _same),
    "tags": ("tags", _same),
    "allowedTools": ("allowed_tools", _same),
    "includeTools": ("allowed_tools", _same),
    "enabled_tools": ("allowed_tools", _same),
    "available_tools": ("allowed_tools", _tools),
    "tools": ("allowed_tools", _same),
    "excludeTools": ("denied_tools", _same),
    "disabledTools": ("denied_tools", _same),
    "disabled_tools": ("denied_tools", _same),
    "timeout": ("timeout", _timeout),
    "tool_timeout_sec": ("timeout", _same),
    "startup_timeout_sec": ("connect_timeout", _same),
    "startup_timeout_ms": ("connect_timeout", _milliseconds),
    "startMode": ("start", _same),
    "max_concurrent_calls": ("max_concurrent", _concurrency),
    "instance_mode": ("isolation", _isolation),
    "required_keys": ("required_keys", _same),
    "rate_limit": ("calls_per_minute", _per_minute),
    "fallback_chain": ("fallback", _same),
}


_READ_OTHERWISE = frozenset({"bearer_token_env_var", "env_http_headers", "env_keys", "env_vars"})
_ONLY_SHOWN = frozenset({"id", "name", "display_name", "title", "icon", "bundled", "gallery", "version", "source"})
_OWN = frozenset(ServerConfig.__struct_fields__) - WORDS.keys() - _ONLY_SHOWN - {"auth"}
"""Wicket's options that other programs have no key for; `auth` is also a key of Cursor's, with another meaning."""


class Words(msgspec.Struct):
    """One entry with Wicket's option names, and the original key of each renamed one."""

    values: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    sources: dict[str, KeyPath] = msgspec.field(default_factory=dict[str, KeyPath])

    def put(self, option: str, value: Any, source: KeyPath) -> None:
        self.values[option] = value
        self.sources[option] = source

    def add(self, option: str, more: dict[str, str]) -> None:
        present: Any = self.values.get(option, {})
        if isinstance(present, Mapping):
            self.values[option] = {**more, **cast("Mapping[str, Any]", present)}


def explain_unsupported(entry: Mapping[str, Any]) -> str | None:
    """Why an entry that is valid in its own program cannot run here, if so."""
    kind = entry.get("type", entry.get("transport"))
    if isinstance(kind, str) and kind.lower() in _UNSUPPORTED:
        return f"the transport '{kind}' is not supported."
    if isinstance(kind, str) and kind.lower() in _PART_OF_THE_CLIENT and "cmd" not in entry:
        return "it is part of the client itself."
    reachable = any(entry.get(key) for key in ("command", "url", "serverUrl", "httpUrl"))
    if not reachable and (entry.get("source") == "extension" or isinstance(entry.get("settings"), Mapping)):
        return "it is part of an editor extension; add the extension's command or url to use it."
    return "it listens on a TCP socket, which is not supported." if not reachable and "tcp" in entry else None


def unknown_keys(entry: Mapping[str, Any]) -> list[str]:
    """The keys of an entry that are set, mean something to its own program, and nothing here."""
    known = WORDS.keys() | _READ_OTHERWISE | _ONLY_SHOWN
    return [key for key, value in entry.items() if value and (key not in known or not _is_usable(key, value))]


def _is_usable(key: str, value: Any) -> bool:
    return key != "tools" or isinstance(value, list)  # in Codex, a table of approvals by tool


def own_options(entry: Mapping[str, Any]) -> list[str]:
    """The keys of an entry that are Wicket's own options: they have no effect in another program's file."""
    return [key for key in entry if key in _OWN]


class Vocabulary:
    """Translates the entries of one file, using the rest of that file."""

    def __init__(self, top: Mapping[str, Any]) -> None:
        self._inputs = _input_defaults(top.get("inputs"))
        self._excluded_names = _excluded_names(top.get("mcp"))

    def translate(self, name: str, entry: Mapping[str, Any]) -> Words:
        words = Words()
        for key, value in entry.items():
            if key not in WORDS or value is None or (value == "" and key != "description"):
                continue
            if not _is_usable(key, value):
                continue
            option, convert = WORDS[key]
            words.put(option, convert(value), (key,))
        _nested_command(words)
        _command_list(words, entry)
        _one_address(words, entry)
        _named_variables(words, entry)
        if name in self._excluded_names:
            words.put("enabled", False, ())
        if words.values.get("timeout") == 0:
            del words.values["timeout"]
        words.values = {option: self._rewritten(value) for option, value in words.values.items()}
        return words

    def _rewritten(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._referring(item) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            return {key: self._referring(item) for key, item in cast("Mapping[str, Any]", value).items()}
        return self._referring(value)

    def _referring(self, value: Any) -> Any:
        """A text with its references to secrets, in all their notations, as `${…}`."""
        if not isinstance(value, str):
            return value
        if _BARE_VARIABLE.fullmatch(value):
            value = _BARE_VARIABLE.sub(r"\1${env:\2}", value)
        value = _BRACED.sub(r"${\1:\2}", value)
        return _INPUT.sub(self._input, _SECRETREF.sub(_variable, value))

    def _input(self, match: re.Match[str]) -> str:
        default = self._inputs.get(match[1])
        return match[0] if default is None else f"${{input:{match[1]}:-{default}}}"


def _nested_command(words: Words) -> None:
    """Zed formerly kept path, arguments and environment together under `command`."""
    nested: Any = words.values.get("command")
    if not isinstance(nested, Mapping):
        return
    del words.values["command"]
    inner = cast("Mapping[str, Any]", nested)
    for key, option in (("path", "command"), ("args", "args"), ("env", "env")):
        if inner.get(key) is not None:
            words.put(option, inner[key], ("command", key))


def _command_list(words: Words, entry: Mapping[str, Any]) -> None:
    """opencode: program and arguments are one list, and `timeout` is in milliseconds."""
    command: Any = words.values.get("command")
    if isinstance(command, list) and command:
        program, *arguments = cast("list[Any]", command)
        words.put("command", program, ("command",))
        words.put("args", arguments, ("command",))
    if entry.get("type") in ("local", "remote") and "timeout" in entry and "args" not in entry:
        words.put("timeout", _milliseconds(entry["timeout"]), ("timeout",))


def _one_address(words: Words, entry: Mapping[str, Any]) -> None:
    """Gemini CLI: `httpUrl` is Streamable HTTP and has priority over `url`."""
    if entry.get("httpUrl"):
        words.put("url", entry["httpUrl"], ("httpUrl",))
        words.values.setdefault("transport", "http")


def _named_variables(words: Words, entry: Mapping[str, Any]) -> None:
    """Codex names the variables that hold secrets instead of writing `${…}`."""
    token: Any = entry.get("bearer_token_env_var")
    if isinstance(token, str):
        words.add("headers", {"Authorization": f"Bearer ${{env:{token}}}"})
    headers: Any = entry.get("env_http_headers")
    if isinstance(headers, Mapping):
        pairs = cast("Mapping[str, Any]", headers).items()
        words.add("headers", {header: f"${{env:{variable}}}" for header, variable in pairs})
    secret: Any = entry.get("env_keys")
    if isinstance(secret, list):  # Goose keeps their values in the system's keyring
        variables = [item for item in cast("list[Any]", secret) if isinstance(item, str)]
        words.add("env", {variable: f"${{env:{variable}}}" for variable in variables})
    passed: Any = entry.get("env_vars")
    if isinstance(passed, list):
        variables = [item for item in cast("list[Any]", passed) if isinstance(item, str)]
        words.add("env", {variable: f"${{env:{variable}:-}}" for variable in variables})


def _input_defaults(inputs: Any) -> dict[str, str]:
    """VS Code asks for these; a default is used if no one can be asked."""
    defaults: dict[str, str] = {}
    for item in cast("list[Any]", inputs) if isinstance(inputs, list) else []:
        if isinstance(item, Mapping):
            known = cast("Mapping[str, Any]", item)
            name, default = known.get("id"), known.get("default")
            if isinstance(name, str) and isinstance(default, str) and not set("{}") & set(default):
                defaults[name] = default
    return defaults


def _excluded_names(settings: Any) -> set[str]:
    """Gemini CLI: servers that are listed but disabled."""
    excluded: Any = cast("Mapping[str, Any]", settings).get("excluded") if isinstance(settings, Mapping) else None
    return (
        {item for item in cast("list[Any]", excluded) if isinstance(item, str)} if isinstance(excluded, list) else set()
    )
