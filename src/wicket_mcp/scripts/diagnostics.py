"""Turns a child's report into something its author can fix: the line, and a hint if the cause is known.

Pure functions. A child's report is untrusted: every field is checked and limited in length.
"""

import re
from typing import Any

from msgspec.structs import replace

from wicket_mcp.model import JsonObject
from wicket_mcp.scripts.api import HELPERS, Api
from wicket_mcp.scripts.languages import LANGUAGES, NO_FILES, NO_MODULES
from wicket_mcp.scripts.outcome import Problem
from wicket_mcp.spelling import nearest, stands_alone

LIMIT_KINDS = frozenset({"cpu", "wall", "memory", "calls", "output", "source", "busy"})
_CHILD_KINDS = frozenset({"syntax", "type", "runtime", "tool", "value", "deadlock", "cpu", "memory", "output", "calls"})
_MOST_TEXT = 4000

_LUA_PLACE = re.compile(r"^(?:script|\[string \"script\"\]):(\d+): ?")
_LUA_FRAME = re.compile(r"\bscript:(\d+):")
_OUR_PLACE = re.compile(r"^wicket:\d+: ?")
_NO_TOOL = re.compile(r"\b([A-Za-z_$][\w$]*) has no tool '([^']{1,100})'")
_UNKNOWN = (
    re.compile(r"attempt to (?:index|call) a nil value \(global '([^']+)'\)"),
    re.compile(r"ReferenceError: (?:'([^']+)'|([\w$]+)) is not defined"),
    re.compile(r"[Nn]ame [`']([^`']+)[`'] (?:is not defined|used when not defined)"),
)
_NO_ATTRIBUTE = re.compile(r"[Oo]bject of type `(\w+)` has no attribute `(\w+)`")
_NO_MEMBER = re.compile(r"[Mm]odule [`'](\w+)[`'] has no (?:attribute|member) [`'](\w+)[`']")
_LUA_HABITS = (
    (re.compile(r"!="), "Lua writes `~=` for not equal."),
    (re.compile(r"[-+*/]="), "Lua has no `+=`: write `x = x + 1`."),
    (re.compile(r"\bcontinue\b"), "Lua has no `continue`: use `goto` or an `if` around the rest of the loop."),
    (re.compile(r"&&|\|\|"), "Lua writes `and` and `or`."),
    (re.compile(r"\bawait\b(?!\s*\()"), "Lua writes `:await()` behind a call."),
)
_IMPORT = re.compile(r"^[^\S\n]*+import\b[^\n;'\"]*+['\"]", re.MULTILINE)
_TYPED = re.compile(
    r"\binterface\s+\w+\s*\{|\b(?:const|let|var)\s+\w+\s*:\s*\w|\)\s*:\s*\w[\w<>\[\]]*\s*(?:=>|\{)|\bas\s+\w+"
)
_BEFORE_NAME, _AFTER_NAME = re.compile(r"[\w'\"`.-]"), re.compile(r"[\w-]")
_UNBOUND = re.compile(r"cannot access local variable '(\w+)'")
_SHADOWED = re.compile(r"attempt to call a \w+ value \((?:local|upvalue|global) 'result'\)")
_ARGUMENTS = re.compile(
    r"argument|parameter|required|invalid|missing|should be|must be|expected|schema|signature|unknown", re.IGNORECASE
)
"""What an error says that may be about the arguments of a call, and not about a network or a disk."""
_IN_SCRIPTS = "In scripts, names are written with `_` for hyphens and the like: {}"
_NOT_CALLED = "was not called: "
_NOT_AWAITED = re.compile(r"not awaited|pending call|['\"]coroutine['\"]|coroutine object|type coroutine")


def problem(report: JsonObject, source: str, language: str, api: Api) -> Problem:
    """A child's report as a problem with its position and a hint."""
    kind = report.get("kind")
    kind = kind if isinstance(kind, str) and kind in _CHILD_KINDS else "runtime"
    message = _text(report.get("message")) or "The script failed without a message."
    line, column = _number(report.get("line")), _number(report.get("column"))
    if LANGUAGES[language].places_errors:
        message, line = _lua_place(message, line, _text(report.get("trace")))
    lines = source.split("\n")
    known = line is not None and 1 <= line <= len(lines)
    if kind == "runtime" and _NO_TOOL.search(message):
        kind = "unknown_name"
    source_line = lines[line - 1].rstrip("\r") if known and line is not None else ""
    hint = _explain_spelling(kind, message, source_line or source, api) or _hint(kind, message, language, api, source)
    return Problem(
        kind,
        message,
        line if known else None,
        column if known else None,
        source_line[:200],
        hint or _text(report.get("hint")),
    )


def with_line(problem: Problem, line: int, source: str) -> Problem:
    """A problem with the line that was found for it later."""
    return replace(problem, line=line, source_line=source.split("\n")[line - 1].rstrip("\r")[:200])


def _explain_spelling(kind: str, message: str, text: str, api: Api) -> str:
    """The name to write, if `text` has one as it is outside of scripts: with a hyphen, a dot or a space."""
    if kind != "syntax" and not any(pattern.search(message) for pattern in (_NO_TOOL, _NO_ATTRIBUTE, *_UNKNOWN)):
        return ""
    for name, server in api.servers.items():
        spellings = [spelling for spelling in {name, server.name} if _is_code(spelling, text)]
        for tool_name, tool in server.tools.items() if spellings else ():
            keys = (f"{spelling}.{tool.name}" for spelling in spellings)
            if tool.name != tool_name and any(_is_code(key, text) for key in keys):
                return _IN_SCRIPTS.format(f"{name}.{tool_name}")
        if name != server.name and server.name in spellings:
            return _IN_SCRIPTS.format(name)
    return ""


def _is_code(name: str, text: str) -> bool:
    """Whether a name appears outside of strings, as far as one line shows."""
    return stands_alone(name, text, _BEFORE_NAME, _AFTER_NAME)


def _hint(kind: str, message: str, language: str, api: Api, source: str) -> str:
    if kind in LIMIT_KINDS:
        return limit_hint(kind)
    if kind == "deadlock":
        return "Await only calls of tools, or promises that are settled somewhere."
    if (match := _UNBOUND.search(message)) and match[1] in api.servers:
        return f"A variable named '{match[1]}' hides the server of that name: give the variable another name."
    if _SHADOWED.search(message):
        return "A variable named 'result' hides the function result(): give the variable another name."
    if match := _NO_TOOL.search(message) or _NO_ATTRIBUTE.search(message):
        return _tool_hint(match[1], match[2], api)
    if (match := _NO_MEMBER.search(message)) and match[1] in api.servers:
        name = f"{match[1]}.{match[2]}"
        return f"`import {match[1]}` hides the server of that name: leave it out, or write tools.call('{name}', {{…}})."
    for pattern in _UNKNOWN:
        if match := pattern.search(message):
            return _name_hint(next(group for group in match.groups() if group), language, api)
    if kind == "syntax":
        return _syntax_hint(source, language, message)
    if _NOT_AWAITED.search(message):
        return f"A call gives its value only when it is awaited. {LANGUAGES[language].await_hint}"
    if message.startswith(("PermissionError:", "FileNotFoundError:")):
        return NO_FILES
    if kind == "tool" and _NOT_CALLED not in message and _ARGUMENTS.search(message):
        return f"Use tools.describe to see what the tool expects; {LANGUAGES[language].catch} lets the script go on."
    if kind == "tool":  # refused by a rule or a person, or failed for a reason of its own: the arguments are fine
        return f"{LANGUAGES[language].catch} lets the script go on."
    return ""


def limit_hint(kind: str) -> str:
    return {
        "cpu": "Do less work in the script, or split it; look for a loop that does not end.",
        "wall": "Start calls together instead of one after another, or split the script.",
        "memory": "Keep only what is needed of each answer.",
        "calls": "Make fewer calls, or split the script.",
        "output": "Return only what matters of the data.",
        "source": "Send a shorter script.",
        "busy": "Try again in a moment.",
    }.get(kind, "")


def _tool_hint(server: str, tool: str, api: Api) -> str:
    home = api.servers.get(server)
    names = list(home.tools) if home else list(HELPERS.get(server, ()))
    close = nearest(tool, names)
    if close:
        return f"Did you mean {', '.join(f'{server}.{name}' for name in close)}?"
    if not names:
        return f"The server '{server}' has no tools."
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"'{server}' has {', '.join(names[:8])}{more}; tools.search(\"…\") finds tools by what they do."


def _syntax_hint(source: str, language: str, message: str) -> str:
    """What an author used to another language meant."""
    if LANGUAGES[language].name == "lua":
        return next((hint for pattern, hint in _LUA_HABITS if pattern.search(source)), "")
    if LANGUAGES[language].interfaces and _IMPORT.search(source):
        return NO_MODULES
    if LANGUAGES[language].name == "javascript" and _TYPED.search(source):
        return 'For code with types, set language to "typescript".'
    return (
        "" if "not yet support" not in message else "Write it another way: the engine supports most of Python, not all."
    )


def _name_hint(name: str, language: str, api: Api) -> str:
    if known := LANGUAGES[language].missing_names.get(name):
        return known
    close = nearest(name, [*api.servers, *HELPERS])
    if close:
        return f"Did you mean {' or '.join(close)}?"
    names = list(api.servers)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"The servers here are {', '.join(names[:12])}{more}." if names else ""


def _lua_place(message: str, line: int | None, trace: str) -> tuple[str, int | None]:
    if match := _LUA_PLACE.match(message):
        return message[match.end() :], int(match[1])
    message = _OUR_PLACE.sub("", message)
    if line is None and (match := _LUA_FRAME.search(trace)):
        line = int(match[1])
    return message, line


def _text(value: Any) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**6 else None
