"""Names of tools: plain names, wire names, and finding the tool that a name means.

Pure functions of the names given. A tool's canonical name is `server.tool`; everything else here is another spelling of
it. Knows no dialect: the caller that resolves a name passes the hint for an unknown name.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2s
from itertools import islice

from wicket_mcp.catalog.identifiers import LUA_KEYWORDS, identifier
from wicket_mcp.errors import AmbiguousName, UnknownName
from wicket_mcp.model import Tool
from wicket_mcp.spelling import change_each, fold_all, nearest_of

_NOT_WORD = re.compile(r"[^A-Za-z0-9_]")
_NOT_WIRE = re.compile(r"[^A-Za-z0-9_-]")
_WIRE_LENGTH = 64
_PLAIN_SERVER = re.compile(r"(?!.*__)[A-Za-z0-9_-]*[A-Za-z0-9-]")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_-]+(?<!_[0-9a-f]{8})")
_HASHED = re.compile(r"_[0-9a-f]{8}([0-9a-f]{24})?$")
_ONLY_WORDS = {code: "_" for code in range(128) if code != 10 and _NOT_WORD.match(chr(code))}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ECHO = 80
_SMALL = 500  # tools for which all tables are built in a few milliseconds


def plain_names(tools: Iterable[Tool], *, upper: bool = False) -> dict[str, Tool]:
    """Each tool under its bare name, prefixed with its server only if two tools share the name; in the given order.

    `upper` writes them in upper snake case. Names that differ only in case count as shared, because readers confuse
    them.
    """
    every = list(tools)
    spelled = [_upper_snake(tool.name) if upper else tool.name for tool in every]
    counts = Counter(name.lower() for name in spelled)
    named: dict[str, Tool] = {}
    for name, tool in zip(spelled, every, strict=True):
        full = _upper_snake(tool.key) if upper else tool.key
        choice = base = name if counts[name.lower()] == 1 else full
        number = 1
        while choice in named:
            number += 1
            choice = f"{base}_{number}"
        named[choice] = tool
    return named


def upper_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """`plain_names` in upper snake case."""
    return plain_names(tools, upper=True)


def bare_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Each tool under its own name only, for a gateway with a single server."""
    return {tool.name: tool for tool in tools}


def _upper_snake(name: str) -> str:
    return _NOT_WORD.sub("_", _HUMP.sub("_", name)).upper()


def wire_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Names for clients that allow only `^[a-zA-Z0-9_-]{1,64}$`, sorted.

    A name depends only on its own server and tool: `server__tool` if that is legal and unambiguous, else a readable
    head and a hash of both. So no name changes when another tool is added.
    """
    named: dict[str, Tool] = {}
    for tool in sorted(tools, key=lambda tool: (tool.server, tool.name)):
        name = _wire_name(tool)
        if name in named and (named[name].server, named[name].name) != (tool.server, tool.name):
            name = _hash_name(tool, 32)  # two keys in 2**32 share the short hash: the later one gets a long one
        named.setdefault(name, tool)
    return dict(sorted(named.items()))


def _wire_name(tool: Tool) -> str:
    plain = f"{tool.server}__{tool.name}"
    legal = _PLAIN_SERVER.fullmatch(tool.server) and _PLAIN_TOOL.fullmatch(tool.name)
    return plain if legal and len(plain) <= _WIRE_LENGTH else _hash_name(tool, 8)


def _hash_name(tool: Tool, digits: int) -> str:
    full_name = f"{tool.server}\0{tool.name}".encode("utf-8", "surrogatepass")
    head = _NOT_WIRE.sub("_", f"{tool.server}__{tool.name}")[: _WIRE_LENGTH - digits - 1]
    return f"{head}_{blake2s(full_name).hexdigest()[:digits]}"


def _sanitise(name: str) -> str:
    plain = name.lower().translate(_ONLY_WORDS)
    return plain if plain.isascii() else _NOT_WORD.sub("_", plain)


class NameIndex:
    """Finds the tool that a name means. Immutable; the tables for inexact names are built on demand."""

    def __init__(self, tools: Iterable[Tool], hint: str = "") -> None:
        self._tools = tuple(tools)
        self._hint = hint
        self.prepared = len(self._tools) < _SMALL
        self._keys: dict[str, Tool] = {tool.key: tool for tool in self._tools}

    def find(self, name: str) -> list[Tool]:
        """The tools that `name` may mean: none, one, or those of several servers."""
        tool = self._keys.get(name)
        if tool is not None and name not in self._twins:
            return [tool]
        tools = self._twins.get(name) or self._split(name) or self._bare.get(name) or self._inexact(name)
        return list({(tool.server, tool.name): tool for tool in tools}.values())

    def resolve(self, name: str, *, suggest: bool = True) -> Tool:
        """The tool that `name` means. Raises AmbiguousName or UnknownName, with similar names unless told otherwise."""
        tools = self.find(name)
        if not tools:
            raise UnknownName("tool", shorten(name), self.near(name) if suggest else (), hint=self._hint)
        if len(tools) > 1:
            raise AmbiguousName(shorten(name), sorted(map(self._spell, tools)))
        return tools[0]

    def near(self, name: str) -> list[str]:
        """The names that an unknown name most likely stands for."""
        return nearest_of(name, list(self._keys), self._folded, 3)

    def knows(self, name: str) -> bool:
        """Whether it is exactly the name of a tool; needs none of the tables below."""
        return name in self._keys

    def prepare(self) -> None:
        """Build every table, which takes a while for ten thousand tools."""
        _ = self._twins, self._wire, self._bare, self._caseless, self._caseless_bare, self._plain, self._plain_bare
        self.prepared = True

    def _split(self, name: str) -> list[Tool]:
        """`server/tool` and `server__tool`, wherever the boundary is, and wire names that end in a hash."""
        for left, right in _splits(name):
            key = f"{left}.{right}"
            for tool in self._twins.get(key) or ([self._keys[key]] if key in self._keys else []):
                if tool.server == left:
                    return [tool]
        return [self._wire[name]] if _HASHED.search(name) and name in self._wire else []

    def _inexact(self, name: str) -> list[Tool]:
        spellings = [name, *(f"{left}.{right}" for left, right in _splits(name))]
        for table, bare, change in (
            (self._caseless, self._caseless_bare, str.lower),
            (self._plain, self._plain_bare, _sanitise),
        ):
            for spelling in spellings:
                if tools := table.get(change(spelling)):
                    return tools
            if tools := bare.get(change(name)):
                return tools
        return []

    def _spell(self, tool: Tool) -> str:
        return f"{tool.server}/{tool.name}" if tool.key in self._twins else tool.key

    @cached_property
    def unique(self) -> dict[str, Tool]:
        """The tools with a unique canonical name."""
        return {key: tool for key, tool in self._keys.items() if key not in self._twins}

    @cached_property
    def _twins(self) -> dict[str, list[Tool]]:
        """Keys that two tools share, as `a.b` + `c` and `a` + `b.c` do; a slash tells them apart."""
        if len(self._keys) == len(self._tools):
            return {}
        shared = _group([tool.key for tool in self._tools], self._tools)
        return {key: tools for key, tools in shared.items() if len({tool.server for tool in tools}) > 1}

    @cached_property
    def _wire(self) -> dict[str, Tool]:
        return wire_names(self._tools)

    @cached_property
    def _bare(self) -> dict[str, list[Tool]]:
        return _group([tool.name for tool in self._tools], self._tools)

    @cached_property
    def _caseless(self) -> dict[str, list[Tool]]:
        return _group(change_each([tool.key for tool in self._tools], str.lower), self._tools)

    @cached_property
    def _caseless_bare(self) -> dict[str, list[Tool]]:
        return _group(change_each([tool.name for tool in self._tools], str.lower), self._tools)

    @cached_property
    def _plain(self) -> dict[str, list[Tool]]:
        table = _group(change_each([tool.key for tool in self._tools], _sanitise), self._tools)
        for tool in self._tools:
            if _is_prefixed(tool.server) or _is_prefixed(tool.name):
                spelling = _sanitise(f"{identifier(tool.server)}.{identifier(tool.name)}")
                table.setdefault(spelling, []).append(tool)
        return table

    @cached_property
    def _plain_bare(self) -> dict[str, list[Tool]]:
        table = _group(change_each([tool.name for tool in self._tools], _sanitise), self._tools)
        for tool in self._tools:
            if _is_prefixed(tool.name):
                table.setdefault(identifier(tool.name).lower(), []).append(tool)
        return table

    @cached_property
    def _folded(self) -> list[str]:
        return fold_all(list(self._keys))


def _splits(name: str) -> list[tuple[str, str]]:
    """Positions other than a dot where `name` may be split into server and tool; few, so that every lookup is cheap."""
    cuts = list(islice(re.finditer(r"/|(?=__)", name), 8))
    return [(name[: cut.start()], name[cut.start() + (1 if cut[0] else 2) :]) for cut in cuts]


def _is_prefixed(name: str) -> bool:
    """Whether `identifier` does more to `name` than replace characters. May return True too often."""
    return not name or name[0].isdigit() or len(name) == 1 or name in LUA_KEYWORDS


def _group(spellings: list[str], tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    table: dict[str, list[Tool]] = {}
    for spelling, tool in zip(spellings, tools, strict=True):
        if spelling in table:
            table[spelling].append(tool)
        else:
            table[spelling] = [tool]
    return table


def shorten(name: str) -> str:
    """A name in a form that an error message may repeat: printable and short."""
    plain = "".join(char if char.isprintable() else "_" for char in name[:_ECHO])
    return plain if len(name) <= _ECHO else f"{plain}…"
