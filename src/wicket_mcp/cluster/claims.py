"""Locks by which members agree on owners: each lock ends with its holder's connection, and a row names the holder.

The engine behind them (`store/postgres/members.py`) knows no servers; `upstream/lock_ownership.py` knows no database.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from wicket_mcp.cluster.members import Member, Members


class Taken(NamedTuple):
    """Our claim succeeded."""

    epoch: int
    """Ours; with `earlier`, that of the earlier owner."""
    earlier: Member | None = None
    """The owner that is still recorded, because it did not report a release. We are recorded (`record`) once it has
    certainly stopped: until then, whoever claims after us must wait for it too.
    """


class Holder(NamedTuple):
    """The owner of a claim."""

    member: Member
    epoch: int


class ClaimsAway(Exception):
    """The engine that holds the locks does not answer."""


class ClaimingMembers(Members, Protocol):
    """Members whose engine has locks. Calls to it raise ClaimsAway if it does not answer."""

    on_away: list[Callable[[], None]]
    """Called when the engine does not answer (`problem` says so)."""
    on_lost: list[Callable[[], None]]
    """Called when we cannot be sure of our locks any more: others may own by now what we owned."""
    on_back: list[Callable[[], None]]
    """Called when its connection is back: what we own must be claimed again."""

    @property
    def certain(self) -> bool:
        """Whether we certainly still hold the locks of what we claimed; if not, `on_lost` has been called."""
        ...

    def trust(self, asked_at: float) -> None:
        """At this time of the loop or later all other members said that the engine is away for them too: nobody can
        claim what we own.
        """
        ...

    async def claim(self, name: str) -> Taken | None:
        """Own `name` from now on; None if another member owns it."""
        ...

    async def record(self, name: str) -> int | None:
        """Record us as the owner of what we have claimed; the epoch, or None if we have lost the lock since."""
        ...

    async def holder(self, name: str) -> Holder | None: ...

    async def release(self, name: str) -> None: ...

    async def depose(self, address: str) -> bool:
        """End all claims of the member at this address, if the engine has not heard of it for longer than it may act on
        them; whether that was done.
        """
        ...
