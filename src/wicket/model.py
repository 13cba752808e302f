"""The vocabulary that every room is written in.

Frozen data and aliases, no behaviour beyond reading a field, and no import of ours. What an upstream says
stays a plain dict (`JsonObject`) from the wire to the wire, so that unknown and vendor fields survive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

Detail: TypeAlias = Literal["signature", "brief", "full"]
ListKind: TypeAlias = Literal["tools", "resources", "prompts"]

MODERN_VERSION = "2026-07-28"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY_VERSION = LEGACY_VERSIONS[-1]

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling. Results, handles and usage belong to a principal."""

    name: str


LOCAL = Principal("local")


class Caller(Protocol):
    """The client that waits for a call: whose it is, which session, and how it hears of progress."""

    @property
    def principal(self) -> Principal: ...

    @property
    def session(self) -> str: ...

    def notify(self, method: str, params: JsonObject) -> None:
        """Hand the client a notification that belongs to this call (progress, log). Must not block."""
        ...


@dataclass(frozen=True, slots=True)
class Silent:
    """A caller that hears nothing: the library, the command line."""

    principal: Principal = LOCAL
    session: str = "local"

    def notify(self, method: str, params: JsonObject) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Tool:
    """One upstream tool: our server id, and the definition exactly as the upstream sent it."""

    server: str
    name: str
    definition: JsonObject = field(repr=False)

    @property
    def key(self) -> str:
        return f"{self.server}.{self.name}"

    @property
    def title(self) -> str:
        """The display name, from `title` or `annotations.title`, else empty."""
        annotations: Any = self.definition.get("annotations")
        inner: Any = annotations.get("title") if isinstance(annotations, dict) else None  # pyright: ignore[reportUnknownMemberType]
        title: Any = self.definition.get("title") or inner
        return title if isinstance(title, str) else ""

    @property
    def description(self) -> str:
        text: Any = self.definition.get("description")
        return text if isinstance(text, str) else ""

    @property
    def input_schema(self) -> JsonObject:
        schema: Any = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {}  # pyright: ignore[reportUnknownVariableType]

    @property
    def output_schema(self) -> JsonObject | None:
        schema: Any = self.definition.get("outputSchema")
        return schema if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry of an upstream's list that could not be taken in, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything one upstream said about itself, at one moment. Immutable: a refresh makes a new one."""

    server: str
    server_info: JsonObject = field(default_factory=dict[str, Any])
    protocol_version: str = ""
    instructions: str = ""
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    tools: tuple[Tool, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    listed_at: float = 0.0
    ttl: float | None = None
    """Seconds for which the upstream vouches for this listing; None when it says nothing."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call on its way down: the tool as the agent named it, its arguments, and who waits for it."""

    tool: str
    arguments: Json
    caller: Caller
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The request's `_meta`, without what belongs to our own hop."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call's answer on its way up: the upstream's result object, untouched, and which tool gave it."""

    tool: Tool
    body: JsonObject

    @property
    def is_error(self) -> bool:
        return bool(self.body.get("isError"))


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One line of `wicket servers`: what a user asks first about an upstream."""

    name: str
    state: str
    tools: int | None
    description: str
    version: str = ""
    transport: str = ""
    problem: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the tool and how well it fits, comparable within one answer."""

    tool: Tool
    score: float
