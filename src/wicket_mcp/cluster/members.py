"""The members of a cluster: the gateways that serve together, each with its own id and an address for the others.

The surface and the pool use `Members`, which answers from a snapshot in memory without waiting. An implementation
learns from its engine, not from a clock of ours, that a member is gone. Text tagged with a member's id (`tag`) leads
every member back to it.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

MARK = "~"
AWAY = "The database cannot be reached"
"""How the problem of a member begins that cannot reach what the members share."""


class Member(msgspec.Struct, frozen=True):
    """One gateway."""

    id: str
    address: str
    """The address for other members: `http://host:port`."""


class Members(Protocol):
    """The members as this one sees them."""

    @property
    def me(self) -> str:
        """Our own id: new with every start."""
        ...

    @property
    def all(self) -> Mapping[str, Member]:
        """The current members, by id."""
        ...

    @property
    def suspects(self) -> Mapping[str, Member]:
        """Members that did not announce that they leave, but do not seem to be running: dead, or unreachable for a
        moment.
        """
        ...

    @property
    def problem(self) -> str:
        """Why we are not a member at the moment; empty if we are."""
        ...

    @property
    def on_change(self) -> list[Callable[[], None]]:
        """Called when a member joined or left."""
        ...

    def clock(self) -> float:
        """The time that all members share."""
        ...

    async def look(self) -> bool:
        """Check the members at once, because one did not answer or is unknown; False if that is not possible."""
        ...

    async def forget(self, member: Member) -> None:
        """A suspect is dead: stop looking for it."""
        ...

    async def leave(self) -> None:
        """Tell the others that we are about to stop: new work goes to them."""
        ...

    async def close(self) -> None: ...


def tag(member: str, text: str) -> str:
    """`text` with the id of its member."""
    return f"{member}{MARK}{text}"


def untag(text: str) -> tuple[str, str]:
    """The member's id (or empty) and the text."""
    member, mark, tail = text.partition(MARK)
    return (member, tail) if mark else ("", text)


def choose(members: Mapping[str, Member], key: str) -> Member | None:
    """The member for `key`: the same for everyone who sees the same members."""

    def weight(member: Member) -> bytes:
        return hashlib.blake2b(f"{member.id} {key}".encode(), digest_size=8).digest()

    return max(members.values(), key=weight, default=None)
