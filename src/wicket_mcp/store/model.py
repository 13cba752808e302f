"""The stored records, as plain data, used by the Protocols of `base.py` and by every module.

No behaviour and no I/O. A new owner of state adds its records here, its Protocol in `base.py`, its tables in
`sql/migrations.py` and its SQL in a new module in `sql/`. Times are seconds since the epoch.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec import structs

from wicket_mcp.model import Discreet, JsonObject, Listing, identify

Status: TypeAlias = Literal["active", "deprecated", "deleted"]
Who: TypeAlias = Literal["caller", "other"]
DomainState: TypeAlias = Literal["pending", "verified", "failed", "expired"]


class StoredListing(msgspec.Struct, frozen=True):
    """A stored listing, with the configuration it was made for and its search segment."""

    listing: Listing
    fingerprint: str
    segment: bytes = b""


class StoredResult(msgspec.Struct, frozen=True):
    """A large result, stored completely (as encoded JSON) for the principal who caused it."""

    id: str
    principal: str
    tool: str
    body: bytes
    expires_at: float


class CallRecord(msgspec.Struct, frozen=True, gc=False):
    """One line of the audit: who did what, with what outcome. Arguments only as a digest.

    Thousands wait to be written under load, so it is of few objects, and none that the garbage collector looks at.
    """

    at: float
    principal: str
    server: str
    tool: str
    """The tool, prompt or resource; for an event that is no request, the action (`sign-in`, `revoke key`)."""
    arguments_digest: str
    outcome: str
    duration_ms: float
    result_bytes: int
    method: str = "tools/call"
    """The MCP method; `auth` and `admin` for actions on the gateway itself."""
    client: str = ""
    """The name that the client declared."""
    detail: str = ""
    """Why it was denied or failed, or what an administrative action was about."""
    run: str = ""
    """The script that made the call."""
    upstream_ms: float = 0.0
    """The part of the duration that the server took; the rest is ours."""
    arguments_bytes: int = 0
    rule: str = ""
    """The rule of the configuration that decided, and its decision."""
    holder: str = ""
    """See `Principal.holder`."""
    id: int = 0
    """Its position in the store; later records have larger ones. Not part of the record's content."""
    steps: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    """Milliseconds of each step of the pipeline, in their order; the server's time is the last."""
    arguments: str = ""
    """The arguments as JSON, masked, if the configuration asks for them; not stored."""

    @property
    def owner(self) -> str:
        """The `id` of the principal."""
        return identify(self.principal, self.holder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallRecord) and self._said == other._said

    def __hash__(self) -> int:
        return hash((self.at, self.principal, self.server, self.tool))

    @property
    def _said(self) -> tuple[object, ...]:
        return structs.astuple(structs.replace(self, id=0))


class AuditQuery(msgspec.Struct, frozen=True):
    """A filter for audit records; empty means any."""

    principal: str = ""
    """By name, whoever had it."""
    owner: str = ""
    """By the `id` of a principal."""
    server: str = ""
    tool: str = ""
    outcome: str = ""
    """An outcome, or `failed` for all that are not successes."""
    method: str = ""
    run: str = ""
    """The calls of one script."""
    since: float = 0.0
    after: int = 0
    """The `id` at which the last page ended."""
    limit: int = 100
    newest_first: bool = True


class CallTotals(msgspec.Struct, frozen=True):
    """The calls of one server within one interval."""

    start: float
    server: str
    calls: int
    failed: int
    cached: int
    duration_ms: float
    """The sum over all calls."""
    arguments_bytes: int
    result_bytes: int


class ListTotals(msgspec.Struct, frozen=True):
    """Lists of tools of one size that one client was shown in one dialect."""

    dialect: str
    client: str
    result_bytes: int
    """Of one list."""
    lists: int


class StoredRecord(Discreet, frozen=True):
    """One version of one registered server: its `server.json`, and the registry's additions."""

    hidden: ClassVar[frozenset[str]] = frozenset({"body"})

    name: str
    version: str
    body: JsonObject
    status: Status = "active"
    published_at: float = 0.0
    updated_at: float = 0.0
    latest: bool = True
    origin: str = ""
    """Its origin: `seed`, `published`, `registered`, or the address of a mirrored registry."""
    owner: str = ""
    """The principal who may change it; empty for seeded and mirrored ones."""


class RecordQuery(msgspec.Struct, frozen=True):
    """A filter for a page of records. `after` is the (name, version) at which the last page ended."""

    after: tuple[str, str] = ("", "")
    limit: int = 30
    search: str = ""
    updated_since: float | None = None
    version: str = ""
    """Empty for all, `latest`, or an exact version."""
    include_deleted: bool = False


class StoredKey(Discreet, frozen=True):
    """The stored form of an API key: never the key itself."""

    hidden: ClassVar[frozenset[str]] = frozenset({"digest"})

    name: str
    digest: bytes
    hint: str
    """The first characters, by which a person can tell keys apart."""
    scopes: frozenset[str]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    rates: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    """Requests per hour by kind, if they differ from the configured ones."""
    holder: str = ""
    """See `Principal.holder`."""

    @property
    def id(self) -> str:
        """The `id` of its principal."""
        return identify(self.name, self.holder)


class StoredDataKey(Discreet, frozen=True):
    """A data key of the vault, encrypted ("wrapped") by a key that the store never sees."""

    hidden: ClassVar[frozenset[str]] = frozenset({"wrapped"})

    id: str
    wrapped: bytes
    wrapped_by: str
    """The id of the wrapping key."""
    created_at: float


class StoredSecret(Discreet, frozen=True):
    """One stored secret of the vault: encrypted with the data key of id `key`."""

    hidden: ClassVar[frozenset[str]] = frozenset({"sealed"})

    owner: str
    name: str
    key: str
    sealed: bytes
    updated_at: float


class StoredClient(msgspec.Struct, frozen=True):
    """An OAuth client that registered itself with our authorization server."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    created_at: float


class StoredGrant(Discreet, frozen=True):
    """A user's consent for an OAuth client; all its tokens are one family, and end with it."""

    hidden: ClassVar[frozenset[str]] = frozenset({"credential"})

    id: str
    client: str
    client_name: str
    principal: str
    credential: bytes
    """The digest of the credential that approved it; the grant ends when the credential does."""
    scopes: frozenset[str]
    created_at: float
    expires_at: float
    used_at: float | None = None
    revoked_at: float | None = None
    reason: str = ""
    """Why it was revoked."""


class StoredTicket(Discreet, frozen=True):
    """A secret that is presented to us once or for a while: a code, a token, a session. Stored as a digest."""

    hidden: ClassVar[frozenset[str]] = frozenset({"digest"})

    digest: bytes
    kind: str
    grant: str
    body: JsonObject
    expires_at: float
    used_at: float | None = None


class StoredDomain(Discreet, frozen=True):
    """One principal's claim to one domain."""

    hidden: ClassVar[frozenset[str]] = frozenset({"token"})

    principal: str
    domain: str
    token: str
    state: DomainState
    created_at: float
    checked_at: float | None = None
    verified_at: float | None = None
    method: str = ""
    problem: str = ""


class StoredManaged(Discreet, frozen=True):
    """A server that was installed at run time: what to start, and whether it should run."""

    hidden: ClassVar[frozenset[str]] = frozenset({"options"})

    name: str
    kind: str
    options: JsonObject
    """The fields of its ServerConfig that differ from their default."""
    running: bool
    owner: str
    created_at: float


class StoredChoice(msgspec.Struct, frozen=True):
    """A tool that a principal called after a search."""

    principal: str
    query: bytes
    """The query, as numbers of its words' stems: enough to recognise it, too little to read it."""
    tool: str
    weight: float
    """How often, summed; it fades with the time since `at`."""
    at: float


PINS_OF_NAME = 8
"""Accepted definitions kept per name: a server that goes back to one of them needs no new approval."""
PINS_OF_SERVER = 40_000
"""Those kept of all names of a server, more than one listing has: a server may have new names every time."""


class StoredPin(Discreet, frozen=True):
    """An accepted definition of a server, as it was then."""

    hidden: ClassVar[frozenset[str]] = frozenset({"definition"})

    server: str
    source: str
    """How the server is reached, as a digest: a server that is started differently counts as another."""
    kind: str
    """`tool`, `prompt`, `template`, `instructions` or `package`."""
    name: str
    digest: str
    """SHA-256 over the canonical form; for a package its integrity hash."""
    definition: bytes
    approved_by: str
    at: float


class StoredApproval(msgspec.Struct, frozen=True):
    """A call that a rule holds until a person approves it: one call of one principal."""

    id: str
    principal: str
    server: str
    tool: str
    arguments_digest: str
    policy: str
    """The version of the rules that asked."""
    words: str
    """The question, for the person who decides: one line."""
    asked_at: float
    expires_at: float
    approved_by: str = ""
    spent: bool = False
    arguments: str = ""
    """The arguments of the call as JSON, for that person."""
    who: Who = "caller"
    """Who may approve it: `other` for somebody else than its principal."""


class StandingApproval(msgspec.Struct, frozen=True):
    """An approval given with "always": calls of one tool by one principal with exactly these arguments."""

    id: str
    principal: str
    server: str
    tool: str
    conditions: bytes
    """A JSON object: a JSON Schema for each covered argument."""
    approved_by: str
    at: float


class Observation(msgspec.Struct, frozen=True):
    """One observation of a server: a real call, or a probe."""

    at: float
    ok: bool
    faulty: bool
    """There was no tool result: a failure, or a JSON-RPC error."""
    duration_ms: float
