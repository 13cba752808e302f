"""Hourly budgets that all users of a profile share: calls to servers, and tokens of answers.

A call is refused before it is made. An answer is charged after it was given, so one answer may overdraw the budget, and
the next request waits until it has refilled. Each gateway counts for itself. Part of the stack only if a profile has a
budget; `rooms.py` passes it from one configuration to the next.
"""

import time
from collections.abc import Callable, Mapping

from wicket_mcp.config.model.config import ProfileConfig
from wicket_mcp.errors import RateLimited
from wicket_mcp.model import Caller, Principal
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.results.results import CHARS_PER_TOKEN

_HOUR = 3600.0


class ProfileBudgets:
    """The rest of each budget: it holds an hour's worth and refills steadily. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        """By profile and kind: what is left, and at what time."""

    def take_call(self, profile: ProfileConfig) -> None:
        """Raises RateLimited if the profile has no calls left."""
        self._check(profile, "calls", profile.calls_per_hour)
        self._spend(profile, "calls", profile.calls_per_hour, 1)

    def check_tokens(self, profile: ProfileConfig) -> None:
        """Raises RateLimited if the profile has no tokens left."""
        self._check(profile, "tokens", profile.tokens_per_hour)

    def spend_tokens(self, profile: ProfileConfig, characters: int) -> None:
        self._spend(profile, "tokens", profile.tokens_per_hour, characters / CHARS_PER_TOKEN)

    def _check(self, profile: ProfileConfig, kind: str, most: int) -> None:
        left = self._now(profile, kind, most)
        if most and left < 1:
            raise RateLimited(
                f"Profile '{profile.name}' has used its {most:,} {kind} an hour.", retry_after=(1 - left) * _HOUR / most
            )

    def _spend(self, profile: ProfileConfig, kind: str, most: int, amount: float) -> None:
        if most:
            self._left[profile.name, kind] = self._now(profile, kind, most) - amount, self._clock()

    def _now(self, profile: ProfileConfig, kind: str, most: int) -> float:
        left, at = self._left.get((profile.name, kind), (float(most), self._clock()))
        return min(float(most), left + (self._clock() - at) * most / _HOUR)


def limit_profile(budgets: ProfileBudgets, profiles: Mapping[str, ProfileConfig]) -> Layer:
    """Counts the requests to servers through a profile."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            profile = profiles.get(request.caller.principal.profile)
            if profile is not None:
                budgets.take_call(profile)
            return await inner(request)

        return handle

    return layer


def afford(budgets: ProfileBudgets, profiles: Mapping[str, ProfileConfig]) -> Callable[[Principal], None]:
    """A check, before an answer, that there are tokens left for it."""

    def check(principal: Principal) -> None:
        profile = profiles.get(principal.profile)
        if profile is not None:
            budgets.check_tokens(profile)

    return check


def charge(
    budgets: ProfileBudgets, profiles: Mapping[str, ProfileConfig], disclose: Callable[[Caller, str, str, int], None]
) -> Callable[[Caller, str, str, int], None]:
    """`disclose`, which also takes the disclosed tokens from the profile's budget."""

    def spend(caller: Caller, dialect: str, kind: str, characters: int) -> None:
        disclose(caller, dialect, kind, characters)
        profile = profiles.get(caller.principal.profile)
        if profile is not None:
            budgets.spend_tokens(profile, characters)

    return spend
