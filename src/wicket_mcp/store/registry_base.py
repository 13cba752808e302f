"""What the registry keeps, as a Protocol: records, API keys, rate buckets, domains, managed servers, measurements.

Implementations are chosen in `app.py` and nowhere else. Times are seconds since the epoch. Every method is one
transaction, so that two processes over the same state agree.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from wicket_mcp.model import JsonObject

Status: TypeAlias = Literal["active", "deprecated", "deleted"]
DomainState: TypeAlias = Literal["pending", "verified", "failed", "expired"]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One version of one registered server: its `server.json`, and what the registry adds."""

    name: str
    version: str
    body: JsonObject = field(repr=False)
    status: Status = "active"
    published_at: float = 0.0
    updated_at: float = 0.0
    latest: bool = True
    origin: str = ""
    """Where it came from: `seed`, `published`, `registered`, or the address of a mirrored registry."""
    owner: str = ""
    """The principal who may change it; empty for seeded and mirrored ones."""


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records a page is asked for. `after` is the (name, version) that the last page ended with."""

    after: tuple[str, str] = ("", "")
    limit: int = 30
    search: str = ""
    updated_since: float | None = None
    version: str = ""
    """Empty for all, `latest`, or an exact version."""
    include_deleted: bool = False


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key as it is kept: never the key itself."""

    name: str
    digest: bytes = field(repr=False)
    hint: str
    """The first characters, by which a person tells keys apart."""
    scopes: frozenset[str]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    rates: Mapping[str, int] = field(default_factory=dict[str, int])
    """Requests an hour by kind, where they differ from the configured ones."""


@dataclass(frozen=True, slots=True)
class StoredDomain:
    """One principal's claim to one domain."""

    principal: str
    domain: str
    token: str = field(repr=False)
    state: DomainState
    created_at: float
    checked_at: float | None = None
    verified_at: float | None = None
    method: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StoredManaged:
    """A server that was installed while the gateway ran: what to start, and whether it should run."""

    name: str
    kind: str
    options: JsonObject = field(repr=False)
    """The fields of its ServerConfig that are not at their default."""
    running: bool
    owner: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing seen of a server: a real call, or a probe."""

    at: float
    ok: bool
    faulty: bool
    """No tool result came: a failure, or a JSON-RPC error."""
    duration_ms: float


class RegistryStore(Protocol):
    """See the module's docstring."""

    # Records

    async def page(self, query: RecordQuery) -> Sequence[StoredRecord]:
        """At most `limit` records in order of (name, version)."""
        ...

    async def versions(self, name: str) -> Sequence[StoredRecord]:
        """All versions of a server, the newest publication first; deleted ones too."""
        ...

    async def save_records(self, records: Sequence[StoredRecord]) -> None:
        """Insert or replace; a record that is `latest` takes that mark from every other version of its name."""
        ...

    async def record_stamp(self) -> tuple[int, float]:
        """Changes whenever a record does: their number and the newest change."""
        ...

    # Keys and limits

    async def save_key(self, key: StoredKey) -> None: ...

    async def keys(self) -> Sequence[StoredKey]: ...

    async def key_of(self, digest: bytes, at: float) -> StoredKey | None:
        """The key with this digest, noted as used at `at`."""
        ...

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        """Take one token from a bucket that holds `per_hour` and refills in an hour.

        Returns 0.0, or the seconds until there will be one.
        """
        ...

    # Domains and onboarding

    async def save_domain(self, domain: StoredDomain) -> None: ...

    async def domains(self, principal: str) -> Sequence[StoredDomain]: ...

    async def record_step(self, principal: str, step: str, at: float) -> None:
        """Note that a principal took a step; only the first time counts."""
        ...

    async def steps(self, principal: str) -> Mapping[str, float]: ...

    # Managed servers

    async def save_managed(self, managed: StoredManaged) -> None: ...

    async def drop_managed(self, name: str) -> None: ...

    async def managed(self) -> Sequence[StoredManaged]: ...

    # Health

    async def save_probe(self, server: str, seen: Observation, keep_since: float) -> None:
        """Keep a probe's outcome; older ones than `keep_since` are dropped."""
        ...

    async def observations(self, server: str, since: float) -> Sequence[Observation]:
        """Probes and real calls of a server since then, oldest first; calls that say nothing of it are left out."""
        ...

    async def observed(self, since: float) -> Collection[str]:
        """Servers with a probe or a call since then."""
        ...

    async def called(self, since: float) -> Mapping[str, int]:
        """How many calls each server answered since then."""
        ...

    async def watch(self, server: str, until: float) -> None: ...

    async def watched(self, at: float) -> Collection[str]: ...


Row: TypeAlias = tuple[Any, ...]
