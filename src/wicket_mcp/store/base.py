"""Persistent state, as Protocols: one for each owner, and `Store` as their sum.

A module asks for the Protocol it needs and gets a `Store`; `open.py` chooses the implementation, and only it and
`transfer.py` import one. Every method is one transaction, so that several processes over the same state agree. Reads
never wait for writers. What a call records (`record_call`, `mark_key_used`) neither waits nor fails; a large result is
saved before its call answers. Any other failure raises Internal, which says what to do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from wicket_mcp.model import Principal
from wicket_mcp.store.model import (
    AuditQuery,
    CallRecord,
    CallTotals,
    ListTotals,
    Observation,
    RecordQuery,
    StandingApproval,
    StoredApproval,
    StoredChoice,
    StoredClient,
    StoredDataKey,
    StoredDomain,
    StoredGrant,
    StoredKey,
    StoredListing,
    StoredManaged,
    StoredPin,
    StoredRecord,
    StoredResult,
    StoredSecret,
    StoredTicket,
)

NOTHING = -1
"""The number of a change before every other one."""


class ListingStore(Protocol):
    """What each server offered when it was last listed."""

    async def load_listings(self) -> list[StoredListing]: ...

    async def new_listings(self, after: int) -> list[tuple[int, StoredListing]]:
        """The listings that were stored after that change, each with the number of its own."""
        ...

    async def save_listing(self, stored: StoredListing) -> int:
        """Store a listing in place of the server's earlier one; returns the number of this change."""
        ...

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        """Store search segments with the listings of these servers, if those are stored."""
        ...

    async def drop_listing(self, server: str) -> None: ...

    def definitions_version(self) -> int | None:
        """As `KeyStore.keys_version`, for listings and pins."""
        ...


class ResultStore(Protocol):
    """Large results, until they expire."""

    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        """Store a result. If the total would exceed `max_total_bytes`, the oldest results of the principal with the
        most are dropped.
        """
        ...

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        """The result, or None if it is unknown, expired, or another principal's, without telling these apart."""
        ...

    async def list_results(self, tool: str, principal: Principal) -> list[str]:
        """The ids of the principal's results of a tool that have not expired, oldest first."""
        ...


class AuditStore(Protocol):
    """Who called what, with what outcome."""

    @property
    def records_problem(self) -> str:
        """Why call records cannot be stored at the moment; empty if they can."""
        ...

    @property
    def lost_records(self) -> int:
        """Call records that were lost since the store was opened."""
        ...

    @property
    def waiting_records(self) -> int:
        """Call records that are not written yet."""
        ...

    @property
    def record_call(self) -> Callable[[CallRecord], None]:
        """Takes a record. Never blocks and never raises; if the queue is full the record is counted as lost."""
        ...

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        """The latest calls of this principal, newest first."""
        ...

    async def find_calls(self, query: AuditQuery) -> list[CallRecord]:
        """The records that match a query, of all principals."""
        ...

    async def call_totals(self, since: float, width: float, principal: str = "") -> list[CallTotals]:
        """Calls of servers since that hour, summed by server and by intervals of `width` seconds, oldest first.

        An interval is a whole number of hours.
        """
        ...

    async def list_totals(self, since: float, principal: str = "") -> list[ListTotals]:
        """The lists of tools that clients were shown since then."""
        ...


class UsageStore(Protocol):
    """How often tools are called, counted from the call records."""

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        """How often each tool (by key) was called by this principal."""
        ...


class ChoiceStore(Protocol):
    """Which tools principals called after which searches."""

    async def choices(self, principal: str) -> Sequence[StoredChoice]:
        """The choices of one principal, newest first."""
        ...

    async def add_choice(self, choice: StoredChoice, most: int) -> None:
        """Store a choice; the weights of the same query and tool add up. Beyond `most` per principal the oldest are
        dropped.
        """
        ...


class NoteStore(Protocol):
    """Small named texts, such as the instructions that were generated for a configuration."""

    async def load_note(self, key: str) -> str | None: ...

    async def save_note(self, key: str, text: str) -> None: ...

    def notes_version(self) -> int | None:
        """As `KeyStore.keys_version`, for notes."""
        ...


class KeyStore(Protocol):
    """API keys, as digests."""

    async def save_key(self, key: StoredKey) -> None: ...

    async def keys(self) -> Sequence[StoredKey]: ...

    async def key_of(self, digest: bytes) -> StoredKey | None: ...

    def keys_version(self) -> int | None:
        """Differs from every earlier value if a key may have changed since, in any process. Never waits.

        None if unknown: then nothing that was read before may be used again.
        """
        ...

    def mark_key_used(self, digest: bytes, at: float) -> None:
        """Record that a key was used; stored to the minute. Never blocks and never raises."""
        ...


class VaultStore(Protocol):
    """The vault's rows, already encrypted."""

    async def data_keys(self) -> Sequence[StoredDataKey]:
        """All data keys, newest first; the newest is in use."""
        ...

    async def add_data_key(self, key: StoredDataKey, *, after: str | None) -> bool:
        """Store a key as the newest; False, without a change, if the newest is not `after`."""
        ...

    async def drop_data_keys(self) -> None:
        """Delete the data keys that no secret needs, except the newest."""
        ...

    async def save_secret(self, secret: StoredSecret) -> bool:
        """Store a secret in place of an earlier one; False, without a change, if its data key is gone."""
        ...

    async def replace_secret(self, old: StoredSecret, new: StoredSecret) -> None:
        """Replace `old` with `new`; do nothing if `old` was changed meanwhile."""
        ...

    async def secret(self, owner: str, name: str) -> StoredSecret | None: ...

    async def secrets(self, owner: str | None = None) -> Sequence[StoredSecret]:
        """The secrets of one owner, or of all, by owner and name."""
        ...

    async def drop_secret(self, owner: str, name: str) -> bool:
        """Delete a secret; whether there was one."""
        ...

    def vault_version(self) -> int | None:
        """As `KeyStore.keys_version`, for secrets."""
        ...


class GrantStore(Protocol):
    """What our authorization server has issued, and to which clients."""

    async def save_oauth_client(self, client: StoredClient, most: int, kept_since: float) -> bool:
        """Store a client; False if there is no room. `most` may be clients that nobody ever allowed anything: the
        oldest of these make room, but none that is newer than `kept_since`.
        """
        ...

    async def oauth_client(self, client_id: str) -> StoredClient | None: ...

    async def add_grant(self, grant: StoredGrant) -> None: ...

    async def touch_grant(self, grant_id: str, used_at: float, expires_at: float) -> bool:
        """Record that a grant was used and its new end; False, without a change, if it was revoked."""
        ...

    async def revoke_grant(self, grant_id: str, at: float, reason: str) -> bool:
        """End a grant and drop its tickets; False if it has already ended or does not exist."""
        ...

    def grants_version(self) -> int | None:
        """As `KeyStore.keys_version`, for the ends of grants and for whoever gave them (keys and people)."""
        ...

    async def grant(self, grant_id: str) -> StoredGrant | None: ...

    async def grants(self) -> Sequence[StoredGrant]:
        """All grants, oldest first."""
        ...

    async def add_ticket(self, ticket: StoredTicket, at: float) -> bool:
        """Store a ticket, and drop those that ended before `at`; False if its digest already exists."""
        ...

    async def ticket(self, digest: bytes) -> StoredTicket | None: ...

    async def drop_ticket(self, digest: bytes) -> None: ...

    async def use_ticket(self, digest: bytes, at: float) -> StoredTicket | None:
        """Mark a ticket as used, and return its previous state: a second user sees when it was first used."""
        ...


class LimitStore(Protocol):
    """Token buckets that outlive a process."""

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        """Take one token from a bucket that holds `per_hour` and refills in an hour.

        Returns 0.0, or the seconds until a token is available.
        """
        ...

    async def draw(self, principal: str, kind: str, per_hour: int, at: float, amount: float) -> float:
        """Take `amount` tokens from such a bucket, even if it has fewer: it then owes them.

        Returns the seconds until a token is available, 0.0 if there is one. An amount of 0 only asks.
        """
        ...


class SharedLimits(LimitStore, Protocol):
    """Token buckets that replicas share, if a server for that is configured."""

    def divide_by(self, share: Callable[[], int]) -> None:
        """Divide limits among this many replicas while that server is unreachable."""
        ...

    async def take_from(self, bucket: str, most: float, rate: float) -> float:
        """Take one token from a bucket of size `most` that gains `rate` per second: 0.0, or the seconds to wait."""
        ...

    async def close(self) -> None: ...


class RecordStore(Protocol):
    """The registry's records: versions of servers."""

    async def page(self, query: RecordQuery) -> Sequence[StoredRecord]:
        """At most `limit` records in order of (name, version)."""
        ...

    async def versions(self, name: str) -> Sequence[StoredRecord]:
        """All versions of a server, newest publication first, including deleted ones."""
        ...

    async def save_records(self, records: Sequence[StoredRecord]) -> None:
        """Insert or replace; a `latest` record removes that mark from all other versions of its name."""
        ...

    async def record_stamp(self) -> tuple[int, float]:
        """Changes whenever a record does: the number of records and the newest change."""
        ...


class DomainStore(Protocol):
    """Claims to domains."""

    async def save_domain(self, domain: StoredDomain) -> None: ...

    async def domains(self, principal: str) -> Sequence[StoredDomain]: ...


class OnboardingStore(Protocol):
    """Which steps a principal has taken."""

    async def record_step(self, principal: str, step: str, at: float) -> None:
        """Record that a principal took a step; only the first time counts."""
        ...

    async def steps(self, principal: str) -> Mapping[str, float]: ...


class ManagedStore(Protocol):
    """Servers that were installed at run time."""

    async def save_managed(self, managed: StoredManaged) -> None: ...

    async def drop_managed(self, name: str) -> None: ...

    async def managed_servers(self) -> Sequence[StoredManaged]: ...


class HealthStore(Protocol):
    """Observations of servers: probes, and the calls of the audit."""

    async def save_probe(self, server: str, seen: Observation, keep_since: float) -> None:
        """Store a probe's outcome; those older than `keep_since` are dropped."""
        ...

    async def observations(self, server: str, since: float) -> Sequence[Observation]:
        """Probes and real calls of a server since then, oldest first, without calls that say nothing about it."""
        ...

    async def observed_servers(self, since: float) -> Collection[str]:
        """Servers with a probe or a call since then."""
        ...

    async def call_counts(self, since: float) -> Mapping[str, int]:
        """How many calls of each server succeeded since then."""
        ...

    async def watch(self, server: str, until: float) -> None: ...

    async def watched_servers(self, at: float) -> Collection[str]: ...


class PinStore(Protocol):
    """Which definitions of servers were accepted, and by whom."""

    async def pins(self, server: str = "") -> Sequence[StoredPin]:
        """All pins, or one server's; the newest of a name last."""
        ...

    async def save_pins(self, pins: Sequence[StoredPin]) -> None:
        """Store pins; one with the same digest is replaced, and the oldest of a name are dropped if there are too
        many.
        """
        ...

    async def new_pins(self, after: int) -> tuple[int, Sequence[StoredPin]]:
        """The number of the last change, and what was stored after that one; the newest of a name last."""
        ...


class ApprovalStore(Protocol):
    """Calls that wait for a person's approval, and approvals given with "always"."""

    async def save_approval(self, approval: StoredApproval) -> None:
        """Store a question; expired ones are dropped."""
        ...

    async def approvals(self, at: float) -> Sequence[StoredApproval]:
        """Questions that are open, or approved but not used, oldest first."""
        ...

    async def approve(self, approval: str, by: str, at: float) -> StoredApproval | None:
        """Approve a question; None if there is no such open question."""
        ...

    async def withdraw(self, approval: str) -> None:
        """Drop a question: it was answered elsewhere."""
        ...

    async def spend(self, call: StoredApproval, at: float) -> StoredApproval | None:
        """Use up an approval of exactly this call, under these rules; returns it, or None if there is none."""
        ...

    async def standing_approvals(self) -> Sequence[StandingApproval]:
        """All standing approvals, oldest first."""
        ...

    async def save_standing_approval(self, approval: StandingApproval) -> None:
        """Store one; an existing one with the same id stays."""
        ...

    async def revoke_standing_approval(self, approval: str) -> StandingApproval | None:
        """Delete one and return it; None if it does not exist."""
        ...

    def standing_approvals_version(self) -> int | None:
        """As `KeyStore.keys_version`, for standing approvals."""
        ...


class Store(
    ListingStore,
    ResultStore,
    AuditStore,
    UsageStore,
    ChoiceStore,
    NoteStore,
    KeyStore,
    VaultStore,
    GrantStore,
    LimitStore,
    RecordStore,
    DomainStore,
    OnboardingStore,
    ManagedStore,
    HealthStore,
    PinStore,
    ApprovalStore,
    Protocol,
):
    """Everything that Wicket stores. Its opener closes it."""

    shared_limits: SharedLimits | None
    """Where limits are counted, if not here."""

    def hear_changes(self, hear: Callable[[str], object]) -> Callable[[], None]:
        """Call `hear` on the event loop with an area (`store/sql/changes.py`) soon after any process has changed it,
        until the returned function is called.
        """
        ...

    def share_limits(self, limits: SharedLimits) -> None:
        """Use `limits` for counting, for all gateways that share them."""
        ...

    async def close(self) -> None:
        """Write what was recorded, then close the state."""
        ...
