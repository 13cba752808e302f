"""Locks by which members agree on owners: each lock ends with its holder's connection, and a row names the holder.

The engine behind them (`store/postgres/members.py`) knows no servers; `upstream/lock_ownership.py` knows no database.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from wicket_mcp.cluster.members import Member, Members


class Taken(NamedTuple):
    """Our claim succeeded."""

    epoch: int
    earlier: Member | None
    """The previous owner, if it did not report a release."""


class Holder(NamedTuple):
    """The owner of a claim."""

    member: Member
    epoch: int


class ClaimsAway(Exception):
    """The engine that holds the locks does not answer."""


class ClaimingMembers(Members, Protocol):
    """Members whose engine has locks. Calls to it raise ClaimsAway if it does not answer."""

    on_lost: list[Callable[[], None]]
    """Called when the engine was unreachable for too long: others may own by now what we owned."""
    on_back: list[Callable[[], None]]
    """Called when its connection is back: what we own must be claimed again."""

    async def claim(self, name: str) -> Taken | None:
        """Own `name` from now on; None if another member owns it."""
        ...

    async def holder(self, name: str) -> Holder | None: ...

    async def release(self, name: str) -> None: ...
