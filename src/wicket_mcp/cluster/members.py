"""Who is there: the gateways that serve together, each with an id of its own and an address for the others.

`Members` is what the surface and the pool ask; a snapshot in memory answers, nobody waits. An implementation knows by
its engine's means, not by a clock of ours, that a member is gone. What is tagged with a member's id (`tag`) is found
again by all (`home_of`).
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

MARK = "~"


class Member(msgspec.Struct, frozen=True):
    """One gateway."""

    id: str
    address: str
    """Where the others reach it: `http://host:port`."""


class Members(Protocol):
    """The members as this one sees them."""

    @property
    def me(self) -> str:
        """Our own id: new with every start."""
        ...

    @property
    def all(self) -> Mapping[str, Member]:
        """Those who are there now, by id."""
        ...

    @property
    def suspects(self) -> Mapping[str, Member]:
        """Those who did not say that they leave, and do not seem to be there: dead, or out of touch for a moment."""
        ...

    @property
    def problem(self) -> str:
        """Why we are not one of them at the moment; empty where we are."""
        ...

    @property
    def on_change(self) -> list[Callable[[], None]]:
        """Called when somebody came or went."""
        ...

    def clock(self) -> float:
        """The time that all agree on."""
        ...

    async def look(self) -> None:
        """See at once who is there: somebody did not answer."""
        ...

    async def forget(self, member: Member) -> None:
        """A suspect is dead: nobody needs to look for it again."""
        ...

    async def leave(self) -> None:
        """Tell the others that we are about to go: what is new goes to them."""
        ...

    async def close(self) -> None: ...


def tag(member: str, text: str) -> str:
    """`text` so that everybody sees whose it is."""
    return f"{member}{MARK}{text}"


def untag(text: str) -> tuple[str, str]:
    """The member's id, or nothing, and the text."""
    member, mark, tail = text.partition(MARK)
    return (member, tail) if mark else ("", text)


def choose(members: Mapping[str, Member], key: str) -> Member | None:
    """The member that everybody who sees the same ones agrees on for `key`."""

    def weight(member: Member) -> bytes:
        return hashlib.blake2b(f"{member.id} {key}".encode(), digest_size=8).digest()

    return max(members.values(), key=weight, default=None)
