"""Locks by which members agree who has what: each dies with its holder's connection, and a row says who that is.

The engine behind them (`store/postgres/members.py`) knows no servers; `upstream/lock_ownership.py` knows no database.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from wicket_mcp.cluster.members import Member, Members


class Taken(NamedTuple):
    """That we have it."""

    epoch: int
    earlier: Member | None
    """Who had it before and has not said that it let go."""


class Holder(NamedTuple):
    """Who has it."""

    member: Member
    epoch: int


class ClaimsAway(Exception):
    """The engine that has the locks does not answer."""


class ClaimingMembers(Members, Protocol):
    """Members whose engine has locks. What asks it raises ClaimsAway where it does not answer."""

    on_lost: list[Callable[[], None]]
    """Called when the engine was away for too long: others may have by now what we had."""
    on_back: list[Callable[[], None]]
    """Called when its connection was made again: what we have must be claimed again."""

    async def claim(self, name: str) -> Taken | None:
        """Have `name` from now on; None where another member has it."""
        ...

    async def holder(self, name: str) -> Holder | None: ...

    async def release(self, name: str) -> None: ...
