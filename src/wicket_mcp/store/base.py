"""What must outlive a process, as Protocols: one for each owner, and `Store` as their sum.

A room asks for the Protocol it needs and gets a `Store`; `open.py` chooses the implementation, and only it and
`transfer.py` import one. Every method is one transaction, so that several processes over the same state agree. Reads
wait for no writer. What a call hands over (`record_call`, `mark_key_used`) neither waits nor fails; a large result is
saved before its call answers. Any other failure is raised as Internal, and says what to do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from wicket_mcp.model import Principal
from wicket_mcp.store.model import (
    AuditQuery,
    CallRecord,
    CallTotals,
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


class ListingStore(Protocol):
    """What each server offered when it was last asked."""

    async def load_listings(self) -> list[StoredListing]: ...

    async def save_listing(self, stored: StoredListing) -> None: ...

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        """Keep search segments beside the listings of these servers, where those are kept."""
        ...

    async def drop_listing(self, server: str) -> None: ...

    def hear_listings(self, hear: Callable[[], object]) -> None:
        """Call `hear`, on the event loop, when another gateway has stored a listing; where the engine tells that."""
        ...


class ResultStore(Protocol):
    """Large results, for as long as they may be asked for."""

    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        """Keep a result. When the total would pass `max_total_bytes`, the oldest of who has most make room."""
        ...

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        """The result, or None when it is unknown, expired, or somebody else's: the three look alike."""
        ...


class AuditStore(Protocol):
    """Who called what, with what outcome."""

    @property
    def records_problem(self) -> str:
        """Why records of calls cannot be kept at the moment; empty where they are."""
        ...

    @property
    def lost_records(self) -> int:
        """Call records that could not be kept since the store was opened."""
        ...

    @property
    def record_call(self) -> Callable[[CallRecord], None]:
        """Takes a record over. Never blocks and never raises; when the queue is full the record is counted as lost."""
        ...

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        """The latest calls of this principal, newest first."""
        ...

    async def find_calls(self, query: AuditQuery) -> list[CallRecord]:
        """The records that a query asks for, of everybody."""
        ...

    async def call_totals(self, since: float, width: float, principal: str = "") -> list[CallTotals]:
        """Calls of servers since that hour, added up by server and stretches of `width` seconds, oldest first.

        A stretch is a whole number of hours.
        """
        ...


class UsageStore(Protocol):
    """How often tools are called, which the call records are counted into."""

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        """How often each tool (by key) was called by this principal."""
        ...


class ChoiceStore(Protocol):
    """Which tools principals called after which searches."""

    async def choices(self, principal: str) -> Sequence[StoredChoice]:
        """The choices of one principal, the newest first."""
        ...

    async def add_choice(self, choice: StoredChoice, most: int) -> None:
        """Keep a choice; the weights of the same query and tool add up. Beyond `most` of a principal the oldest go."""
        ...


class NoteStore(Protocol):
    """Small named texts, such as the instructions that were generated for a configuration."""

    async def load_note(self, key: str) -> str | None: ...

    async def save_note(self, key: str, text: str) -> None: ...


class KeyStore(Protocol):
    """API keys, as digests."""

    async def save_key(self, key: StoredKey) -> None: ...

    async def keys(self) -> Sequence[StoredKey]: ...

    async def key_of(self, digest: bytes) -> StoredKey | None: ...

    def keys_version(self) -> int | None:
        """Differs from every earlier answer when a key may have changed since, in any process. Never waits.

        None when that cannot be determined: then nothing read before may be used again.
        """
        ...

    def mark_key_used(self, digest: bytes, at: float) -> None:
        """Hand over that a key was used; kept to the minute. Never blocks and never raises."""
        ...


class VaultStore(Protocol):
    """The vault's rows, encrypted before they come here."""

    async def data_keys(self) -> Sequence[StoredDataKey]:
        """All data keys, the newest first: that one is in use."""
        ...

    async def add_data_key(self, key: StoredDataKey, *, after: str | None) -> bool:
        """Keep a key as the newest; False, and nothing changed, where the newest is not `after`."""
        ...

    async def drop_data_keys(self) -> None:
        """Forget the data keys that no secret needs, except the newest."""
        ...

    async def save_secret(self, secret: StoredSecret) -> bool:
        """Keep a secret in place of an earlier one; False, and nothing changed, where its data key is gone."""
        ...

    async def replace_secret(self, old: StoredSecret, new: StoredSecret) -> None:
        """Put `new` where `old` still stands; do nothing where somebody was quicker."""
        ...

    async def secret(self, owner: str, name: str) -> StoredSecret | None: ...

    async def secrets(self, owner: str | None = None) -> Sequence[StoredSecret]:
        """The secrets of one owner, or of all, by owner and name."""
        ...

    async def drop_secret(self, owner: str, name: str) -> bool:
        """Forget a secret; whether there was one."""
        ...


class GrantStore(Protocol):
    """What our authorization server has issued, and to which clients."""

    async def save_oauth_client(self, client: StoredClient, most: int) -> None:
        """Keep a client; beyond `most`, the oldest without a grant make room."""
        ...

    async def oauth_client(self, client_id: str) -> StoredClient | None: ...

    async def add_grant(self, grant: StoredGrant) -> None: ...

    async def touch_grant(self, grant_id: str, used_at: float, expires_at: float) -> bool:
        """Note that a grant was used and lasts until then; False, and nothing changed, where it was revoked."""
        ...

    async def revoke_grant(self, grant_id: str, at: float, reason: str) -> bool:
        """End a grant and drop its tickets; False where that has happened already, or there is none."""
        ...

    async def grant(self, grant_id: str) -> StoredGrant | None: ...

    async def grants(self) -> Sequence[StoredGrant]:
        """All of them, the oldest first."""
        ...

    async def add_ticket(self, ticket: StoredTicket, at: float) -> bool:
        """Keep a ticket, and drop those that ended before `at`; False where there is one by that digest."""
        ...

    async def ticket(self, digest: bytes) -> StoredTicket | None: ...

    async def use_ticket(self, digest: bytes, at: float) -> StoredTicket | None:
        """Mark a ticket as used, and return it as it was before: the second to use it sees when the first did."""
        ...


class LimitStore(Protocol):
    """Token buckets that outlive a process."""

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        """Take one token from a bucket that holds `per_hour` and refills in an hour.

        Returns 0.0, or the seconds until there will be one.
        """
        ...


class SharedLimits(LimitStore, Protocol):
    """Token buckets that replicas share, where they have a place for that."""

    def divide_by(self, share: Callable[[], int]) -> None:
        """Divide limits among so many replicas while that place is away."""
        ...

    async def take_from(self, bucket: str, most: float, rate: float) -> float:
        """Take one from a bucket that holds `most` and gains `rate` a second: 0.0, or the seconds to wait."""
        ...

    async def close(self) -> None: ...


class RecordStore(Protocol):
    """The registry's records: versions of servers."""

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


class DomainStore(Protocol):
    """Claims to domains."""

    async def save_domain(self, domain: StoredDomain) -> None: ...

    async def domains(self, principal: str) -> Sequence[StoredDomain]: ...


class OnboardingStore(Protocol):
    """Which steps a principal has taken."""

    async def record_step(self, principal: str, step: str, at: float) -> None:
        """Note that a principal took a step; only the first time counts."""
        ...

    async def steps(self, principal: str) -> Mapping[str, float]: ...


class ManagedStore(Protocol):
    """Servers that were installed while the gateway ran."""

    async def save_managed(self, managed: StoredManaged) -> None: ...

    async def drop_managed(self, name: str) -> None: ...

    async def managed_servers(self) -> Sequence[StoredManaged]: ...


class HealthStore(Protocol):
    """What was seen of servers: probes, and the calls of the audit."""

    async def save_probe(self, server: str, seen: Observation, keep_since: float) -> None:
        """Keep a probe's outcome; older ones than `keep_since` are dropped."""
        ...

    async def observations(self, server: str, since: float) -> Sequence[Observation]:
        """Probes and real calls of a server since then, oldest first; calls that say nothing of it are left out."""
        ...

    async def observed_servers(self, since: float) -> Collection[str]:
        """Servers with a probe or a call since then."""
        ...

    async def call_counts(self, since: float) -> Mapping[str, int]:
        """How many calls of each server did not fail since then."""
        ...

    async def watch(self, server: str, until: float) -> None: ...

    async def watched_servers(self, at: float) -> Collection[str]: ...


class PinStore(Protocol):
    """Which definitions of servers were accepted, and by which person."""

    async def pins(self, server: str = "") -> Sequence[StoredPin]:
        """All pins, or one server's; the newest of a name last."""
        ...

    async def save_pins(self, pins: Sequence[StoredPin]) -> None:
        """Keep pins; one of the same digest is replaced, and the oldest of a name go when there are many."""
        ...

    def pins_version(self) -> int | None:
        """As `KeyStore.keys_version`, for pins."""
        ...


class ApprovalStore(Protocol):
    """Calls that wait for a person's yes, and what a person said "always" to."""

    async def save_approval(self, approval: StoredApproval) -> None:
        """Keep a question; those that have expired are dropped."""
        ...

    async def approvals(self, at: float) -> Sequence[StoredApproval]:
        """The questions that are open or approved and not spent, oldest first."""
        ...

    async def approve(self, approval: str, by: str, at: float) -> StoredApproval | None:
        """Say yes; None where there is no such open question."""
        ...

    async def spend(self, call: StoredApproval, at: float) -> str | None:
        """Use up an approval of exactly this call, under these rules; who gave it, or None where there is none."""
        ...

    async def standing_approvals(self) -> Sequence[StandingApproval]:
        """All of them, oldest first."""
        ...

    async def save_standing_approval(self, approval: StandingApproval) -> None:
        """Keep one; one of the same id is left as it is."""
        ...

    async def revoke_standing_approval(self, approval: str) -> StandingApproval | None:
        """Forget one; what it was, or None where there is none."""
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
    """Everything Wicket keeps. Who opens it closes it."""

    shared_limits: SharedLimits | None
    """Where limits are counted, if not here."""

    def share_limits(self, limits: SharedLimits) -> None:
        """Have `limits` count what principals use, for all who share them."""
        ...

    async def close(self) -> None:
        """Write what was handed over, then let go of the state."""
        ...
