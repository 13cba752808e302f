"""Whether it is us alone who cannot reach what the members share, or all of us.

If it is away for all, nobody can claim anything: each goes on with what it owns and has in memory. If another member
reaches it, calls should go there. Begins when the engine is away, ends when it is back.
"""

import asyncio
from collections.abc import Awaitable, Callable

from wicket_mcp.cluster.claims import ClaimingMembers
from wicket_mcp.cluster.members import AWAY, Member
from wicket_mcp.tasks import Tasks

COMPARE_EVERY = 0.5
"""Seconds between two comparisons."""

AskWarning = Callable[[Member], Awaitable[str | None]]
"""What does not work at another member, in its words; None if it does not answer."""


class Comparison:
    """See the module's docstring."""

    def __init__(self, members: ClaimingMembers, ask_warning: AskWarning) -> None:
        self.cut_off = False
        """Whether another member reaches the engine, and we do not."""
        self._members = members
        self._ask_warning = ask_warning
        self._tasks = Tasks()
        members.on_away.append(self._start)

    def _start(self) -> None:
        if not self._tasks:
            self._tasks.start(self._compare(), "compare with the other replicas")

    async def close(self) -> None:
        await self._tasks.close()

    async def _compare(self) -> None:
        members = self._members
        while members.problem:
            asked_at = asyncio.get_running_loop().time()
            others = [member for member in members.all.values() if member.id != members.me]
            warnings = await asyncio.gather(*(self._ask_warning(other) for other in others))
            if all(warning is not None and warning.startswith(AWAY) for warning in warnings):
                members.trust(asked_at)
            some_reach_it = any(warning is not None and not warning.startswith(AWAY) for warning in warnings)
            self.cut_off = some_reach_it and not members.certain
            await asyncio.sleep(COMPARE_EVERY)
        self.cut_off = False
