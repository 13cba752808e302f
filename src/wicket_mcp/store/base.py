"""What must outlive a process, as Protocols. Implementations are chosen in `app.py` and nowhere else.

Nothing here is on the path of a call: reading the catalogue happens at start, recording a call is a hand-over that
neither waits nor fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wicket_mcp.model import Listing, Principal


@dataclass(frozen=True, slots=True)
class StoredListing:
    """A listing as it was kept: for which configuration it was made, and its search segment."""

    listing: Listing
    fingerprint: str
    segment: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A large result, kept whole (as encoded JSON) for the principal who caused it."""

    id: str
    principal: str
    tool: str
    body: bytes
    expires_at: float


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One line of the audit: who called what, with what outcome. Arguments only as a digest."""

    at: float
    principal: str
    server: str
    tool: str
    arguments_digest: str
    outcome: str
    duration_ms: float
    result_bytes: int


class Store(Protocol):
    """Everything Wicket keeps."""

    async def load_listings(self) -> list[StoredListing]: ...

    async def save_listing(self, stored: StoredListing) -> None: ...

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        """Keep search segments beside the listings of these servers, where those are kept."""
        ...

    async def drop_listing(self, server: str) -> None: ...

    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        """Keep a result; the oldest ones make room when the total would pass `max_total_bytes`."""
        ...

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        """The result, or None when it is unknown, expired, or somebody else's: the three look alike."""
        ...

    def record_call(self, record: CallRecord) -> None:
        """Hand a record over. Never blocks and never raises; when the queue is full the record is counted as lost."""
        ...

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        """How often each tool (by key) was called by this principal."""
        ...

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        """The latest calls of this principal, newest first."""
        ...

    async def load_note(self, key: str) -> str | None: ...

    async def save_note(self, key: str, text: str) -> None:
        """A small named text, such as the instructions that were generated for a configuration."""
        ...

    async def close(self) -> None: ...
