"""Identifiers: what servers and tools are called inside a script.

The same rule in every language, deterministic, so that what a listing shows is what a script can write. Knows names
only; the reserved words of each language are in `scripts/languages.py`.
"""

import re
from collections.abc import Collection, Iterable

_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_]")

_LUA_WORDS = (
    "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"
)
LUA_KEYWORDS = frozenset(_LUA_WORDS.split())


def identifier(name: str) -> str:
    """`name` as an identifier: other characters become `_`; a leading digit or a keyword gets a `_` in front."""
    text = _OUTSIDE.sub("_", name)
    if text in ("", "_"):
        return "_unnamed"
    if text[0].isdigit() or text in LUA_KEYWORDS:
        return f"_{text}"
    return text


def words_of(source: str) -> set[str]:
    """Every word in a script, in any language, that may be a name."""
    return set(_WORD.findall(source))


def identifiers(names: Iterable[str], reserved: Collection[str] = frozenset()) -> dict[str, str]:
    """Identifier to name, in order; a collision or a reserved word gets the next free numeric suffix."""
    named: dict[str, str] = {}
    last: dict[str, int] = {}
    for name in dict.fromkeys(names):
        base = choice = identifier(name)
        while choice in named or choice in reserved:
            last[base] = last.get(base, 1) + 1
            choice = f"{base}_{last[base]}"
        named[choice] = name
    return named
