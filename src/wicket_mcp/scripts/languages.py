"""The languages of scripts, each described once: a new one is a record here and its engine's module.

Read by the engine and its children, by the diagnostics, by `wicket run` and by the tool that agents call, so it imports
almost nothing, because the zygote and the command line load it at start.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["vm", "python"]
"""How a child is built: around an interpreter in its own process, or around a worker of the engine."""


class Language(msgspec.Struct, frozen=True):
    """One language: its names, its required packages, and what its authors need to know."""

    name: str
    title: str
    kind: Kind
    engine: str
    """The module that runs it, inside the jail."""
    packages: Mapping[str, str]
    """Distributions that must be installed, and a module of each."""
    install: str
    suffixes: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    example: str = ""
    """A sample call for agents; a language without one is accepted but not offered to them."""
    await_hint: str = "Write `await server.tool(…)`."
    catch: str = "try/catch"
    answer_hint: str = "Its value is its last expression, or what it returns."
    """How a script gives a value."""
    places_errors: bool = False
    """Its messages begin with the line, even when CPU time runs out."""
    interfaces: bool = False
    """Its scripts can read TypeScript interfaces of the tools."""
    missing_names: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Names that authors know from elsewhere but that do not exist here, and their replacements."""
    reserved: str = ""
    """Words that cannot be a server's name in this language."""


_JAVASCRIPT_WORDS = (
    "Array Object Promise JSON Map Set Date Math Number String Boolean Symbol RegExp Error Proxy Reflect "
    "console eval globalThis undefined arguments this new class const let var function async await "
    "yield import export default delete typeof void switch case throw try catch finally with super enum "
    "extends instanceof"
)

NO_NETWORK = 'Scripts reach the network by tools only: tools.search("…") finds one.'
NO_FILES = "Scripts have no files of their own: call a tool that reads and writes files."
NO_MODULES = "There are no modules here: the language's own objects and the tools are all there is."
_LOOK_UP = 'tools.search("…") finds tools, and tools.describe(name) says what one takes and returns.'
_MENU = {
    "call_tool": "A tool is a function of its server here. For a name in a string: tools.call(name, arguments).",
    "find_tools": "In a script this is tools.search(query).",
    "describe_tools": "In a script this is tools.describe(name).",
    "read_result": "In a script this is results.get(id).",
    "run_script": "A script cannot start another: write the code into this one.",
}
"""The tools of an agent's menu, which are not functions of scripts."""
_JAVASCRIPT_MISSING = _MENU | {
    "process": "There is no process here; what the caller passes in is in `args`.",
    "require": NO_MODULES,
    "fetch": NO_NETWORK,
    "XMLHttpRequest": NO_NETWORK,
    "Buffer": "Use strings, or Uint8Array.",
    "Intl": "There is no Intl here: format numbers and dates by hand.",
    "setInterval": "Use a loop with `await new Promise((done) => setTimeout(done, ms))`.",
    "window": "There is no browser here.",
    "document": "There is no browser here.",
    "fs": NO_FILES,
    "result": "The last expression is the script's value; `return value` ends it early.",
    "module": "There are no modules here: the last expression is the script's value.",
    "exports": "There are no modules here: the last expression is the script's value.",
}
_LUA_MISSING = _MENU | {
    "io": NO_FILES,
    "os": "os is not available, except for time and date.",
    "require": "There are no modules here: Lua's own libraries and the tools are all there is.",
    "await": "Write `server.tool{…}:await()`.",
    "json": "Values of tools are tables already; json is not needed.",
}
_PYTHON_MISSING = _MENU | {
    "json": "Write `import json` first.",
    "re": "Write `import re` first.",
    "asyncio": "Write `import asyncio` first.",
    "datetime": "Write `from datetime import datetime` first.",
    "math": "Write `import math` first.",
    "requests": NO_NETWORK,
    "exit": "Write `return` to end a script.",
    "quit": "Write `return` to end a script.",
    "input": "What the caller passes in is in `args`.",
    "result": "The last expression is the script's value; `return value` ends it early.",
    "property": "Write an ordinary method.",
    "staticmethod": "Write a function outside the class.",
    "classmethod": "Write a function outside the class.",
    "super": "Classes have no base classes here: write one class, or functions.",
    "vars": "Name the attributes that you need.",
    **dict.fromkeys(("dir", "help", "globals", "locals"), _LOOK_UP),
}

PYTHON = Language(
    "python",
    "Python",
    "python",
    "wicket_mcp.scripts.python",
    {"pydantic-monty": "pydantic_monty"},
    "pip install 'wicket-mcp[python]'",
    (".py",),
    ("py",),
    example="await server.tool(a=1)",
    catch="try/except",
    missing_names=_PYTHON_MISSING,
    reserved="None True False as def del elif except from global is lambda nonlocal pass raise asyncio json re "
    "datetime typing sys abs all any bool dict enumerate filter float int isinstance iter len list map max min "
    "object open range repr reversed round set sorted str sum super tuple zip",
)
LUA = Language(
    "lua",
    "Lua",
    "vm",
    "wicket_mcp.scripts.lua",
    {"lupa": "lupa"},
    "pip install wicket-mcp",
    (".lua",),
    example="server.tool({a=1}):await()",
    await_hint="Write server.tool({…}):await().",
    catch="pcall",
    answer_hint="Give a value with result(value), or return it.",
    missing_names=_LUA_MISSING,
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
    {"quickjs-ng": "_quickjs"},
    "pip install 'wicket-mcp[js]'",
    (".js", ".mjs"),
    ("js",),
    example="await server.tool({a:1})",
    interfaces=True,
    missing_names=_JAVASCRIPT_MISSING,
    reserved=_JAVASCRIPT_WORDS,
)
TYPESCRIPT = Language(
    "typescript",
    "TypeScript",
    "vm",
    "wicket_mcp.scripts.javascript",
    {"quickjs-ng": "_quickjs", "tree-sitter": "tree_sitter", "tree-sitter-typescript": "tree_sitter_typescript"},
    "pip install 'wicket-mcp[js]'",
    (".ts",),
    ("ts",),
    interfaces=True,
    missing_names=_JAVASCRIPT_MISSING,
    reserved=_JAVASCRIPT_WORDS,
)

LANGUAGES: dict[str, Language] = {entry.name: entry for entry in (PYTHON, LUA, JAVASCRIPT, TYPESCRIPT)}
NAMES: dict[str, Language] = LANGUAGES | {alias: entry for entry in LANGUAGES.values() for alias in entry.aliases}
"""Languages by name and alias."""
SUFFIXES: dict[str, Language] = {suffix: entry for entry in LANGUAGES.values() for suffix in entry.suffixes}
"""Languages by file suffix."""


def missing_package(language: Language) -> str:
    """The first of the language's packages that is not installed; empty if all are."""
    return next((package for package, module in language.packages.items() if find_spec(module) is None), "")


def installed_languages() -> list[Language]:
    """The languages that scripts can use here, the default first."""
    return [language for language in LANGUAGES.values() if not missing_package(language)]


_PYTHON_MODULES = (
    "asyncio base64 binascii bisect calendar collections contextlib copy csv dataclasses datetime decimal difflib "
    "enum fnmatch functools hashlib heapq html io itertools json logging math operator os.path pathlib pprint random "
    "re shlex statistics string sys textwrap time types typing unicodedata urllib.parse uuid"
)
PYTHON_MODULES: tuple[str, ...] = tuple(_PYTHON_MODULES.split())
"""What a Python script may import; some modules have only the parts that make sense here."""

_OURS = "result results tools args null array await_all settle_all"
RESERVED = frozenset(" ".join((_OURS, *(entry.reserved for entry in LANGUAGES.values()))).split())
"""Names that scripts of some language already use; a server with such a name gets a suffix."""
