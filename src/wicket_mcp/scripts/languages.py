"""The languages of scripts, each described once: a new one is a record here and its engine's module.

Read by the engine and its children, by the diagnostics, by `wicket run` and by the tool that agents call, so it imports
nothing: the zygote and the command line both load it at start.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["vm", "python"]
"""How a child is built: around an interpreter in its own process, or around a worker of the engine's."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language: its names, what must be installed, and what its authors need to be told."""

    name: str
    title: str
    kind: Kind
    engine: str
    """The module that runs it, inside the jail."""
    packages: tuple[str, ...]
    """Distributions that must be installed."""
    install: str
    suffixes: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    example: str = ""
    """A call as agents are shown it; a language without one is accepted and not offered to them."""
    await_hint: str = "Write `await server.tool(…)`."
    catch: str = "try/catch"
    places_errors: bool = False
    """Its messages begin with the line, also when processor time runs out."""
    interfaces: bool = False
    """Its scripts can read TypeScript interfaces of the tools."""
    reserved: str = ""
    """Words that a server cannot be called by in it."""


_JAVASCRIPT_WORDS = (
    "Array Object Promise JSON Map Set Date Math Number String Boolean Symbol RegExp Error Proxy Reflect "
    "console eval globalThis undefined arguments this new class const let var function async await "
    "yield import export default delete typeof void switch case throw try catch finally with super enum "
    "extends instanceof"
)

PYTHON = Language(
    "python",
    "Python",
    "python",
    "wicket_mcp.scripts.python",
    ("pydantic-monty",),
    "pip install 'wicket-mcp[python]'",
    (".py",),
    ("py",),
    example="await server.tool(a=1)",
    catch="try/except",
    reserved="None True False as def del elif except from global is lambda nonlocal pass raise asyncio json re "
    "datetime typing sys abs all any bool dict enumerate filter float int isinstance iter len list map max min "
    "object open range repr reversed round set sorted str sum super tuple zip",
)
LUA = Language(
    "lua",
    "Lua",
    "vm",
    "wicket_mcp.scripts.lua",
    ("lupa",),
    "pip install wicket-mcp",
    (".lua",),
    example="server.tool({a=1}):await()",
    await_hint="Write server.tool({…}):await().",
    catch="pcall",
    places_errors=True,
    reserved="_G _VERSION assert collectgarbage coroutine debug error getmetatable io ipairs load math next os package "
    "pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber "
    "tostring type utf8 warn xpcall",
)
JAVASCRIPT = Language(
    "javascript",
    "JavaScript",
    "vm",
    "wicket_mcp.scripts.javascript",
    ("quickjs-ng",),
    "pip install 'wicket-mcp[js]'",
    (".js", ".mjs"),
    ("js",),
    example="await server.tool({a:1})",
    interfaces=True,
    reserved=_JAVASCRIPT_WORDS,
)
TYPESCRIPT = Language(
    "typescript",
    "TypeScript",
    "vm",
    "wicket_mcp.scripts.javascript",
    ("quickjs-ng", "tree-sitter", "tree-sitter-typescript"),
    "pip install 'wicket-mcp[js]'",
    (".ts",),
    ("ts",),
    interfaces=True,
    reserved=_JAVASCRIPT_WORDS,
)

LANGUAGES: dict[str, Language] = {one.name: one for one in (PYTHON, LUA, JAVASCRIPT, TYPESCRIPT)}
NAMES: dict[str, Language] = LANGUAGES | {alias: one for one in LANGUAGES.values() for alias in one.aliases}
"""Languages by every name they may be asked for by."""
SUFFIXES: dict[str, Language] = {suffix: one for one in LANGUAGES.values() for suffix in one.suffixes}
"""Languages by how the names of their files end."""
OFFERED: tuple[Language, ...] = tuple(one for one in LANGUAGES.values() if one.example)
"""What agents are shown."""

_OURS = "result results tools args null array await_all settle_all"
RESERVED = frozenset(" ".join((_OURS, *(one.reserved for one in LANGUAGES.values()))).split())
"""Names that a script of some language already has; a server called by one of them gets a suffix."""
