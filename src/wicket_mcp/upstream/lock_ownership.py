"""Ownership among replicas: a lock in the shared database for each running server.

When a replica takes over from one that did not report its stop, it asks that replica first, and waits as long as the
server may still run there. If the old replica is dead, the kernel refuses the connection at once. If it is cut off, it
stops its servers by itself after a while, and from then on asks the others which of them owns what. If the database has
lost our locks, they are taken again; a server that another replica owns by then is stopped. Implements `Ownership`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from wicket_mcp.cluster.claims import ClaimingMembers, ClaimsAway
from wicket_mcp.cluster.members import Member
from wicket_mcp.errors import NoOwner
from wicket_mcp.upstream.ownership import Claim

log = logging.getLogger(__name__)

GIVES_UP_AFTER = 12.0
"""Seconds after which an unreachable replica has certainly stopped what it owned."""
ASK_EVERY = 0.2
PAUSE = 0.05
LOOKS = 100

Locate = Callable[[Member, str], Awaitable[Claim | None]]
"""The owner of a key, according to another member."""
StillOwns = Callable[[Member, str, int], Awaitable[bool | None]]
"""Whether a member still owns a key under an epoch; None if it does not answer."""


class LockOwnership:
    """See the module's docstring."""

    def __init__(self, members: ClaimingMembers, still_owns: StillOwns, locate: Locate) -> None:
        self._members = members
        self._locate = locate
        self._still_owns = still_owns
        self._held: dict[str, tuple[int, Callable[[], None]]] = {}
        """The epoch of every key that we own, and the function that stops it."""
        self._locks: dict[str, asyncio.Lock] = {}

    def __repr__(self) -> str:
        return f"<LockOwnership {self._members.me} owns {len(self._held)}>"

    @property
    def keys(self) -> list[str]:
        return list(self._held)

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        async with self._locks.setdefault(key, asyncio.Lock()):
            for _ in range(LOOKS):
                try:
                    claim = await self._try(key, lost)
                except ClaimsAway as problem:
                    if (claim := await self._ask_members(key)) is not None:
                        return claim
                    text = f"The gateway that runs server '{key}' cannot be determined: {problem}."
                    raise NoOwner(key, text, hint="Try again when the database is back.") from None
                if claim is not None:
                    return claim
                await asyncio.sleep(PAUSE)
        raise NoOwner(key, f"It is not known which gateway runs server '{key}'.", hint="Try again.")

    async def _try(self, key: str, lost: Callable[[], None]) -> Claim | None:
        if key in self._held:
            self._held[key] = self._held[key][0], lost
            return Claim(self._held[key][0])
        claim = await self._members.claim(key)
        if claim is None:
            holder = await self._members.holder(key)
            return (
                None
                if holder is None or holder.member.id == self._members.me
                else Claim(holder.epoch, holder.member.address)
            )
        if claim.earlier is not None:
            await self._wait_for(claim.earlier, key, claim.epoch - 1)
        self._held[key] = claim.epoch, lost
        log.info("this replica runs server '%s' from now on (epoch %d)", key, claim.epoch)
        return Claim(claim.epoch)

    async def _ask_members(self, key: str) -> Claim | None:
        """The database does not answer us: ask the members that can reach it for the owner; one of them takes the key
        if it is free.
        """
        for member in list(self._members.all.values()):
            if member.id != self._members.me and (claim := await self._locate(member, key)) is not None:
                return claim
        return None

    async def holder(self, key: str) -> Claim | None:
        """The owner, with its address. Raises ClaimsAway."""
        holder = await self._members.holder(key)
        return None if holder is None else Claim(holder.epoch, holder.member.address)

    def epoch(self, key: str) -> int:
        return self._held[key][0] if key in self._held else 0

    async def release(self, key: str) -> None:
        if self._held.pop(key, None) is not None:
            await self._members.release(key)

    async def close(self) -> None:
        for key in list(self._held):
            await self.release(key)

    def give_up(self) -> None:
        """Stop everything at once: the database was unreachable for so long that others may own our keys by now."""
        held, self._held = self._held, {}
        for _, lost in held.values():
            lost()

    async def claim_again(self) -> None:
        """The database lost our locks: take them again, and stop what others own by now."""
        for key in list(self._held):
            try:
                claim = await self._members.claim(key)
            except ClaimsAway:
                return
            if key not in self._held:
                continue
            if claim is not None:
                self._held[key] = claim.epoch, self._held[key][1]
            else:
                log.warning("another replica runs server '%s' now: it is stopped here", key)
                self._held.pop(key)[1]()

    async def _wait_for(self, earlier: Member, key: str, epoch: int) -> None:
        """Wait until the earlier owner has certainly stopped: it says so, it is dead, or its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GIVES_UP_AFTER
        while loop.time() < until:
            if await self._still_owns(earlier, key, epoch) is False:
                return
            await asyncio.sleep(ASK_EVERY)
