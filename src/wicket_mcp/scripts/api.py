"""What a script sees: servers as objects, tools as functions on them, and the helpers `tools` and `results`.

An `Api` is a frozen view of a catalogue. It stays in the gateway: a jailed child gets the names of the servers that its
source mentions, and every name it uses is looked up here again, because a child is not trusted. Knows nothing about
processes or languages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from wicket_mcp.catalog.identifiers import identifiers, words_of
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import Tool
from wicket_mcp.scripts.languages import RESERVED
from wicket_mcp.spelling import nearest

HELPERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"tools": ("search", "describe", "call"), "results": ("get",)}
)


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its real name, and its tools by identifier."""

    name: str
    tools: Mapping[str, Tool]


@dataclass(frozen=True, slots=True)
class Api:
    """Servers by identifier, in the order of the configuration."""

    servers: Mapping[str, Server] = field(default_factory=dict[str, Server])

    @classmethod
    def of(cls, tools: Iterable[Tool], servers: Sequence[str] = ()) -> "Api":
        """The api of these tools; `servers` gives the order, and includes servers without tools."""
        grouped: dict[str, dict[str, Tool]] = {name: {} for name in servers}
        for tool in tools:
            grouped.setdefault(tool.server, {})[tool.name] = tool
        named = identifiers(grouped, RESERVED)
        return cls(
            {
                ident: Server(name, {i: grouped[name][n] for i, n in identifiers(grouped[name]).items()})
                for ident, name in named.items()
            }
        )

    def find_mentions(self, source: str) -> dict[str, list[str] | None]:
        """All server identifiers; with tool identifiers for servers that `source` mentions."""
        words = words_of(source)
        return {ident: list(server.tools) if ident in words else None for ident, server in self.servers.items()}

    def get(self, server: str, tool: str) -> Tool | None:
        """The tool with exactly these identifiers."""
        home = self.servers.get(server)
        return home.tools.get(tool) if home is not None else None

    def get_key(self, key: str) -> Tool | None:
        """The tool with exactly this dotted name, if the server's part is an identifier without dots."""
        server, _, tool = key.partition(".")
        return self.get(server, tool)

    def find(self, server: str, tool: str) -> Tool:
        """The tool that a script names, by identifiers or real names. Raises UnknownName."""
        home = self.servers.get(server) or next((s for s in self.servers.values() if s.name == server), None)
        if home is None:
            raise UnknownName("server", server, self.near_servers(server))
        match = home.tools.get(tool) or next((t for t in home.tools.values() if t.name == tool), None)
        if match is None:
            raise UnknownName("tool", f"{server}.{tool}", nearest(tool, home.tools))
        return match

    def find_key(self, key: str) -> Tool:
        """The tool of a dotted name, as a search returns it. Raises UnknownName."""
        for cut in (i for i, char in enumerate(key) if char == "."):
            server, tool = key[:cut], key[cut + 1 :]
            if server in self.servers or any(s.name == server for s in self.servers.values()):
                return self.find(server, tool)
        bare = [s.tools[key] for s in self.servers.values() if key in s.tools]
        if len(bare) == 1:
            return bare[0]
        names = [tool.key for server in self.servers.values() for tool in server.tools.values()]
        raise UnknownName("tool", key, nearest(key, names), hint="Write it as 'server.tool'.")

    def near_servers(self, name: str) -> list[str]:
        return nearest(name, self.servers)
