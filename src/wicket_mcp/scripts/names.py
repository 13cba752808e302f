"""Identifiers: what servers and tools are called inside a script.

The same rule in every language, deterministic, so that what a listing shows is what a script can write. Knows
names only.
"""

import re
from collections.abc import Collection, Iterable

_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_]")

_LUA_WORDS = (
    "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"
)
LUA_KEYWORDS = frozenset(_LUA_WORDS.split())

# What scripts of any language find in their world; a server of that name gets a suffix.
_TAKEN = (
    # ours
    "result results tools args null array await_all settle_all "
    # Lua
    "_G _VERSION assert collectgarbage coroutine debug error getmetatable io ipairs load math next os package "
    "pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber "
    "tostring type utf8 warn xpcall "
    # JavaScript
    "Array Object Promise JSON Map Set Date Math Number String Boolean Symbol RegExp Error Proxy Reflect "
    "console eval globalThis undefined arguments this new class const let var function async await "
    "yield import export default delete typeof void switch case throw try catch finally with super enum "
    "extends instanceof "
    # Python
    "None True False as def del elif except from global is lambda nonlocal pass raise asyncio json re "
    "datetime typing sys abs all any bool dict enumerate filter float int isinstance iter len list map max min "
    "object open range repr reversed round set sorted str sum super tuple zip"
)
RESERVED = frozenset(_TAKEN.split())


def identifier(name: str) -> str:
    """`name` as an identifier: other characters become `_`; a leading digit or a keyword gets a `_` in front."""
    text = _OUTSIDE.sub("_", name)
    if text in ("", "_"):
        return "_unnamed"
    if text[0].isdigit() or text in LUA_KEYWORDS:
        return f"_{text}"
    return text


def words_of(source: str) -> set[str]:
    """Whatever in a script of any language may be a name."""
    return set(_WORD.findall(source))


def identifiers(names: Iterable[str], reserved: Collection[str] = frozenset()) -> dict[str, str]:
    """Identifier to name, in order; a collision or a reserved word takes the next free numeric suffix."""
    named: dict[str, str] = {}
    last: dict[str, int] = {}
    for name in dict.fromkeys(names):
        wanted = choice = identifier(name)
        while choice in named or choice in reserved:
            last[wanted] = last.get(wanted, 1) + 1
            choice = f"{wanted}_{last[wanted]}"
        named[choice] = name
    return named
