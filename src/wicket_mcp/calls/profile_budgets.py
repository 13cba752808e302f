"""Hourly budgets that all users of a profile share: calls to servers, and tokens of answers.

A call is refused before it is made. An answer is charged after it was given, so one answer may overdraw the budget, and
the next request waits until it has refilled. The store counts, so the budget holds for all workers and replicas
together, and over a restart. Part of the stack only if a profile has a budget; `rooms.py` passes it from one
configuration to the next.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from wicket_mcp.calls.limits import NOT_SENT
from wicket_mcp.config.model.config import ProfileConfig
from wicket_mcp.errors import Internal, RateLimited
from wicket_mcp.model import Principal
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.results.results import CHARS_PER_TOKEN
from wicket_mcp.store.base import LimitStore

log = logging.getLogger(__name__)

_CALLS, _TOKENS = "calls of a profile", "tokens of a profile"
"""The kinds of buckets in the store; no kind of an API key's limit has such a name."""


class ProfileBudgets:
    """The rest of each budget: it holds an hour's worth and refills steadily. `clock` is in seconds since 1970."""

    def __init__(self, store: LimitStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def take_call(self, profile: ProfileConfig) -> None:
        """Raises RateLimited if the profile has no calls left."""
        if most := profile.calls_per_hour:
            wait = await _count(self._store.take(profile.name, _CALLS, most, self._clock()))
            _check(profile, f"{most:,} calls", wait)

    async def give_back(self, profile: ProfileConfig) -> None:
        """The call was not sent."""
        if most := profile.calls_per_hour:
            await _count(self._store.draw(profile.name, _CALLS, most, self._clock(), -1.0))

    async def check_tokens(self, profile: ProfileConfig) -> None:
        """Raises RateLimited if the profile has no tokens left."""
        if most := profile.tokens_per_hour:
            wait = await _count(self._store.draw(profile.name, _TOKENS, most, self._clock(), 0))
            _check(profile, f"{most:,} tokens", wait)

    async def spend_tokens(self, profile: ProfileConfig, characters: int) -> None:
        if most := profile.tokens_per_hour:
            amount = characters / CHARS_PER_TOKEN
            await _count(self._store.draw(profile.name, _TOKENS, most, self._clock(), amount))


async def _count(counting: Awaitable[float]) -> float:
    """The seconds to wait; a state that cannot be written must not stop requests."""
    try:
        return await counting
    except Internal as problem:
        log.warning("a profile's budget could not be counted: %s", problem)
        return 0.0


def _check(profile: ProfileConfig, budget: str, wait: float) -> None:
    if wait:
        raise RateLimited(f"Profile '{profile.name}' has used its {budget} an hour.", retry_after=wait)


def limit_profile(budgets: ProfileBudgets, profiles: Mapping[str, ProfileConfig]) -> Layer:
    """Counts the requests to servers through a profile."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            profile = profiles.get(request.caller.principal.profile)
            if profile is not None and not request.unmetered:
                await budgets.take_call(profile)
            try:
                return await inner(request)
            except NOT_SENT:
                if profile is not None and not request.unmetered:
                    await budgets.give_back(profile)
                raise

        return handle

    return layer


class TokenBudgets:
    """The tokens that the users of each profile have left for answers."""

    def __init__(self, budgets: ProfileBudgets, profiles: Mapping[str, ProfileConfig]) -> None:
        self._budgets = budgets
        self._profiles = profiles

    async def check(self, principal: Principal) -> None:
        """Before an answer. Raises RateLimited if no tokens are left for it."""
        if (profile := self._profiles.get(principal.profile)) is not None:
            await self._budgets.check_tokens(profile)

    async def spend(self, principal: Principal, characters: int) -> None:
        """After an answer."""
        if (profile := self._profiles.get(principal.profile)) is not None:
            await self._budgets.spend_tokens(profile, characters)
