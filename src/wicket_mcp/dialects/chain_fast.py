"""Chains that need no script: one call, written as JSON or as one line of JavaScript with JSON arguments.

Returns what such a chain asks for; None if only a script can tell.
"""

import re
from dataclasses import dataclass

from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject, as_object

_IDENT = r"[A-Za-z_$][\w$]*"
_CALL = rf"await\s+(?P<server>{_IDENT})\.(?P<tool>{_IDENT})\s*\((?P<arguments>.*)\)"
_LINES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"(?:return\s+)?{_CALL}\s*;?",
        rf"(?:const|let|var)\s+(?P<name>{_IDENT})\s*=\s*{_CALL}\s*(?:;\s*)?return\s+(?P=name)\s*;?",
    )
)
_INTERFACE = re.compile(r"""(?:return\s+)?__getToolInterface\(\s*(['"`])(?P<name>[^'"`]+)\1\s*\)\s*;?""")


@dataclass(frozen=True, slots=True)
class OneCall:
    """A single call. Without a server, `tool` is a name as a client would give it."""

    tool: str
    arguments: JsonObject
    server: str = ""


def one_call(code: str) -> OneCall | None:
    """The only call that `code` makes, if its arguments are plain JSON and its value is the result of the code."""
    code = code.strip()
    if code.startswith("{"):
        body = _object(code)
        if body is None or set(body) - {"tool", "arguments"} or not isinstance(body.get("tool"), str):
            return None
        return OneCall(body["tool"], as_object(body.get("arguments")))
    for pattern in _LINES:
        if match := pattern.fullmatch(code):
            arguments = _object(match["arguments"].strip() or "{}")
            if arguments is not None:
                return OneCall(match["tool"], arguments, match["server"])
    return None


def requested_interface(code: str) -> str | None:
    """The tool whose interface is all that `code` asks for."""
    match = _INTERFACE.fullmatch(code.strip())
    return match["name"] if match else None


def _object(text: str) -> JsonObject | None:
    if not text.startswith("{"):
        return None
    try:
        value = decode(text)
    except ValueError:
        return None
    return as_object(value) if isinstance(value, dict) else None
