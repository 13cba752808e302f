"""The shared types that every module uses.

Frozen data and aliases, no behaviour beyond reading a field, and no import of ours. Data from an upstream stays a plain
dict (`JsonObject`) from input to output, so that unknown and vendor fields survive.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

import msgspec

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

Detail: TypeAlias = Literal["signature", "brief", "full"]
ListKind: TypeAlias = Literal["tools", "resources", "prompts", "groups"]
Changed: TypeAlias = ListKind | Literal["menu"]
"""What may have changed for clients: a list of the upstreams, or our own menu of tools."""

MODERN_VERSION = "2026-07-28"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY_VERSION = LEGACY_VERSIONS[-1]

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def as_object(value: Any) -> JsonObject:
    """`value` if it is a JSON object, else an empty one: for reading fields of foreign messages."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_seconds(milliseconds: Any) -> float | None:
    """A peer's number of milliseconds, in seconds from 0 to a year; None if it is no number.

    JSON has integers of any size, and most cannot be divided into a float.
    """
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return min(max(milliseconds, 0), _YEAR_MS) / 1000


_YEAR_MS = 366 * 86_400_000

API_KEY_PREFIX = "wk_"
SCOPES = frozenset({"discover", "register", "invoke", "admin"})
"""What a principal may be allowed to do: look up servers and tools, publish servers, call tools, and everything
else.
"""


PROGRAM = "client:"
"""Begins the subject of a program that signed in for itself."""


class Principal(msgspec.Struct, frozen=True):
    """The caller: the owner, an API key, or a person identified by the issuer and subject of a token.

    Whatever is kept for a principal (results, handles, approvals, usage, credentials, sessions) is kept by its `id`.
    """

    name: str
    """What people and the configuration call it. Never an identity: another key may have had this name before."""
    scopes: frozenset[str] = frozenset()
    rates: tuple[tuple[str, int], ...] = ()
    """Requests per hour by kind, if they differ from the configured ones."""
    issuer: str = ""
    """The issuer of the token; set for every caller with an OAuth token."""
    subject: str = ""
    groups: frozenset[str] = frozenset()
    label: str = ""
    """A display name. Never an identity: the issuer of the token may change it."""
    profile: str = ""
    """The profile that the caller uses, which decides what it sees. Empty: everything."""
    holder: str = ""
    """For an API key: who holds it, new for each key, whatever its name. Empty for keys of earlier versions."""

    id: str = ""
    """Who this is: the same for each token of a person, another for each key. Follows from the fields above."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "id", identify(self.name, self.holder))

    @property
    def is_person(self) -> bool:
        """Whether a person speaks for it: the owner, or somebody who signed in; not an API key or a program."""
        return not self.subject.startswith(PROGRAM) if self.issuer else self.name == "local"

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


def identify(name: str, holder: str) -> str:
    """The `id` of a principal."""
    return f"{name}{_HOLDER}{holder}" if holder else name


def name_of(principal: str) -> str:
    """The name in a principal's `id`, for people to read."""
    return principal.partition(_HOLDER)[0]


_HOLDER = "#"  # in no name of a key or person
LOCAL = Principal("local", SCOPES)


class Caller(Protocol):
    """The client that waits for a call: its principal, its session, and its callbacks."""

    @property
    def principal(self) -> Principal: ...

    @property
    def session(self) -> str: ...

    @property
    def client_name(self) -> str:
        """The name that the client declared; empty if it did not."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """The client capabilities, as declared."""
        ...

    @property
    def resumes(self) -> bool:
        """Whether the client answers `input_required` itself, by repeating its request (the modern era)."""
        ...

    @property
    def log_level(self) -> str:
        """The lowest log level that the client wants; empty for none."""
        ...

    def notify(self, method: str, params: JsonObject) -> None:
        """Send the client a notification that belongs to this call (progress, log). Must not block."""
        ...

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Ask the client an upstream's question. Raises WicketError if it cannot be asked."""
        ...


class Silent(msgspec.Struct, frozen=True):
    """A caller that receives no messages and cannot be asked: the library, the command line."""

    principal: Principal = LOCAL
    session: str = "local"
    capabilities: JsonObject = msgspec.field(default_factory=dict[str, Any])
    resumes: bool = False
    log_level: str = ""
    client_name: str = ""

    def notify(self, method: str, params: JsonObject) -> None:
        return None

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        raise NotImplementedError("a silent caller declares no capability, so it is never asked")


class Represented(msgspec.Struct, frozen=True):
    """A caller that stands for a client in something that the client cannot repeat by itself."""

    client: Caller

    @property
    def principal(self) -> Principal:
        return self.client.principal

    @property
    def session(self) -> str:
        return self.client.session

    @property
    def client_name(self) -> str:
        return self.client.client_name

    @property
    def capabilities(self) -> JsonObject:
        return self.client.capabilities

    @property
    def resumes(self) -> bool:
        return False

    @property
    def log_level(self) -> str:
        return self.client.log_level

    def notify(self, method: str, params: JsonObject) -> None:
        self.client.notify(method, params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self.client.ask(method, params)


class Discreet(msgspec.Struct, frozen=True):
    """A value whose `repr`, which may reach a log, leaves out secret or long fields."""

    hidden: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.hidden)
        return f"{type(self).__name__}({', '.join(fields)})"


class Tool(Discreet, frozen=True):
    """One upstream tool: our server id, and the definition exactly as the upstream sent it."""

    hidden: ClassVar[frozenset[str]] = frozenset({"definition"})

    server: str
    name: str
    definition: JsonObject
    headed: bool = False
    """Whether some of its arguments are repeated in HTTP headers (see `schema/headers.py`)."""
    own_name: str = ""
    """The server's own name for it, if a profile renames it; else empty."""
    variant: str = ""
    """Which of several descriptions this is, if users' accounts get different ones (`catalog/shares.py`)."""

    @property
    def key(self) -> str:
        return f"{self.server}.{self.name}"

    @property
    def own_key(self) -> str:
        """`key` with the server's own name: used by rules, records, usage and pins."""
        return f"{self.server}.{self.own_name or self.name}"

    @property
    def title(self) -> str:
        """The display name, from `title` or `annotations.title`, else empty."""
        return as_text(self.definition.get("title")) or as_text(
            as_object(self.definition.get("annotations")).get("title")
        )

    @property
    def description(self) -> str:
        return as_text(self.definition.get("description"))

    @property
    def input_schema(self) -> JsonObject:
        return as_object(self.definition.get("inputSchema"))

    @property
    def output_schema(self) -> JsonObject | None:
        return as_object(self.definition.get("outputSchema")) or None


class Rejected(msgspec.Struct, frozen=True):
    """An entry of an upstream's list that could not be used, or only in part, and why."""

    name: str
    reason: str


class Listing(msgspec.Struct, frozen=True):
    """Everything that one upstream listed at one moment. Immutable: a refresh creates a new one."""

    server: str
    server_info: JsonObject = msgspec.field(default_factory=dict[str, Any])
    protocol_version: str = ""
    instructions: str = ""
    capabilities: JsonObject = msgspec.field(default_factory=dict[str, Any])
    tools: tuple[Tool, ...] = ()
    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    listed_at: float = 0.0
    ttl: float | None = None
    """The time to live of this listing in seconds, as the upstream declared it; None if it did not."""
    fields: Mapping[str, tuple[JsonObject, ...]] = msgspec.field(default_factory=dict[str, tuple[JsonObject, ...]])
    """Unknown fields beside the entries of each list, page by page (`catalog/list_fields.py`)."""
    accounts: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict[str, frozenset[str]])
    """The entries that each user's account got, if each user has an account (`catalog/shares.py`)."""


class ServerStatus(msgspec.Struct, frozen=True):
    """One line of `wicket servers`."""

    name: str
    state: str
    tools: int | None
    description: str
    version: str = ""
    transport: str = ""
    problem: str = ""
    tags: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True):
    """A search result: the tool and its score, comparable within one answer."""

    tool: Tool
    score: float
