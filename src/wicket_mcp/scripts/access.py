"""Explains a missing key or attribute: which value was accessed, and what it has instead.

Pure functions over a script's text and the engine's message. The driver lets the engine evaluate `probe`, which
consists only of names, attributes and constant keys, so it has no side effects.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from wicket_mcp.model import as_list

_KEY = re.compile(r"^KeyError: (.*)$", re.DOTALL)
_ATTRIBUTE = re.compile(r"^AttributeError: '(\w+)' object has no attribute '(\w+)'")
_INDEX = re.compile(
    r"^TypeError: (?:(?:string|list|tuple) indices must be integers|'(\w+)' object is not subscriptable)"
)
_MOST_KEYS = 12


def find_accesses(source: str, line: int, message: str) -> list[str]:
    """The expressions on that line whose access may have failed."""
    key, attribute = _KEY.match(message), _ATTRIBUTE.match(message)
    if not (key or attribute or _INDEX.match(message)):
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    values: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, slice=subscript) if node.lineno <= line <= _last(node):
                if attribute is None and (key is None or _is_key(subscript, key[1])) and _is_plain(value):
                    values.append(ast.unparse(value))
            case ast.Attribute(value=value, attr=name) if node.lineno <= line <= _last(node):
                if attribute is not None and name == attribute[2] and _is_plain(value):
                    values.append(ast.unparse(value))
            case _:
                pass
    return values


def probe(expression: str) -> str:
    """Code that describes `expression`: its type, and its keys or the beginning of its text."""
    return (
        f"[type({expression}).__name__, list({expression})[:{_MOST_KEYS + 1}] if isinstance({expression}, dict) "
        f"else str({expression})[:100]]"
    )


def describe(expression: str, probed: Any, message: str) -> str:
    """A hint from the answer to a probe; empty if it explains nothing."""
    kind, content = probed
    attribute = _ATTRIBUTE.match(message)
    if kind == "dict":
        keys = [str(key) for key in as_list(content)]
        more = ", …" if len(keys) > _MOST_KEYS else ""
        written = f" A key is written {expression}[{attribute[2]!r}]." if attribute and attribute[2] in keys else ""
        return (
            f"{expression} has the keys {', '.join(keys[:_MOST_KEYS])}{more}.{written}"
            if keys
            else (f"{expression} is empty.")
        )
    if kind == "str":
        return f"{expression} is text: {str(content)[:80]!r}"
    if kind == "server":
        written = f"write {expression}.TOOL(…), or tools.call(name, {{…}}) for a name in a variable."
        return f"{expression} is a server: {written}"
    if kind == "NoneType":
        return f"{expression} is None."
    return f"{expression} is a {kind}: {str(content)[:80]}"


def _is_key(subscript: ast.expr, key: str) -> bool:
    return isinstance(subscript, ast.Constant) and str(subscript.value) == key.strip("'\"")


def _last(node: ast.expr) -> int:
    return node.end_lineno or node.lineno


def _is_plain(node: ast.expr) -> bool:
    return all(_are_plain(node))


def _are_plain(node: ast.expr) -> Iterator[bool]:
    for part in ast.walk(node):
        if isinstance(part, ast.expr):
            yield isinstance(part, ast.Name | ast.Attribute | ast.Subscript | ast.Constant | ast.UnaryOp)
