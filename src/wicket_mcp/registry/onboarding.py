"""A principal's onboarding progress, from their actual steps; nothing is asked or assumed.

Five steps make it complete. Pinning a favourite is shown if it happened, but not required.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from wicket_mcp.model import Principal
from wicket_mcp.store.base import OnboardingStore

STEPS = ("account_created", "first_discovery", "install_first_server", "try_bridge_mode", "first_invocation")
EXTRA = ("favourite_pinned",)
SHOWN_NEXT = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """One principal's state."""

    completed: tuple[str, ...]
    next: tuple[str, ...]
    percentage: int

    @property
    def complete(self) -> bool:
        return self.percentage == 100


class Onboarding:
    """The steps of a principal, read from calls, keys and records."""

    def __init__(self, store: OnboardingStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._noted: set[tuple[str, str]] = set()

    async def took(self, principal: Principal, step: str) -> None:
        """Record a step; after the first time this costs nothing."""
        if (principal.id, step) not in self._noted:
            await self._store.record_step(principal.id, step, self._clock())
            self._noted.add((principal.id, step))

    async def progress(self, principal: Principal) -> Progress:
        await self.took(principal, STEPS[0])
        steps = await self._store.steps(principal.id)
        completed = tuple(step for step in (*STEPS, *EXTRA) if step in steps)
        missing = tuple(step for step in STEPS if step not in steps)
        share = round(100 * (len(STEPS) - len(missing)) / len(STEPS))
        return Progress(completed, missing[:SHOWN_NEXT], share)
