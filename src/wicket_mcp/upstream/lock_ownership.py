"""Ownership among replicas: a lock of the database that all share, for each server that somebody runs.

A replica that takes over from one that did not say that it stopped asks it first, and waits as long as it may still run
what it had: a dead one is refused by the kernel at once, one that is cut off has stopped by itself after a while, and
asks the others from then on who owns what. When the database lost our locks they are taken again; what somebody else
has by then is stopped. Implements `Ownership`.
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
"""Seconds after which a replica that cannot be reached has surely stopped what it owned."""
ASK_EVERY = 0.2
PAUSE = 0.05
LOOKS = 100

Locate = Callable[[Member, str], Awaitable[Claim | None]]
"""Who owns a key, as another member knows it."""
StillOwns = Callable[[Member, str, int], Awaitable[bool | None]]
"""Whether a member still owns a key under an epoch; None where it does not say."""


class LockOwnership:
    """See the module's docstring."""

    def __init__(self, members: ClaimingMembers, still_owns: StillOwns, locate: Locate) -> None:
        self._members = members
        self._locate = locate
        self._still_owns = still_owns
        self._held: dict[str, tuple[int, Callable[[], None]]] = {}
        """Epoch of every key that is ours, and what stops it."""
        self._locks: dict[str, asyncio.Lock] = {}

    def __repr__(self) -> str:
        return f"<LockOwnership {self._members.me} owns {len(self._held)}>"

    @property
    def keys(self) -> list[str]:
        """What we own."""
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
        """The database does not answer us: those that it answers know who owns it, and own it where nobody does."""
        for member in list(self._members.all.values()):
            if member.id != self._members.me and (claim := await self._locate(member, key)) is not None:
                return claim
        return None

    async def holder(self, key: str) -> Claim | None:
        """Who owns it, with the address where others reach that one. Raises ClaimsAway."""
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
        """Stop everything at once: the database was away for so long that others may own it by now."""
        held, self._held = self._held, {}
        for _, lost in held.values():
            lost()

    async def claim_again(self) -> None:
        """The database lost our locks: take them again, and stop what somebody else has by now."""
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
        """Until who had it has surely stopped: it says so, it is dead, or it has had the time to find out."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GIVES_UP_AFTER
        while loop.time() < until:
            if await self._still_owns(earlier, key, epoch) is False:
                return
            await asyncio.sleep(ASK_EVERY)
