"""The health of servers, measured and never guessed: from every real call, and from probes in between.

Over a window, with an observation for each call and probe:

    uptime        share of the minutes with observations in which at least one succeeded
    error rate    share of observations without a tool result: no connection, no answer in time, a protocol error
    response time median duration of those that succeeded
    score         round(100 × (0.5 × uptime + 0.3 × (1 − error rate) + 0.2 × speed))
    speed         1 up to half a second, 0 from ten seconds, in between falling with the logarithm of the median

A tool that answers `isError` has answered: that does not affect the server's health. No observations means `unknown`.
`probes.py` decides what is probed, and when.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from wicket_mcp.store.base import HealthStore
from wicket_mcp.store.model import Observation

Condition: TypeAlias = Literal["healthy", "degraded", "unhealthy", "unknown"]

WINDOWS = {"1h": 3600.0, "24h": 86400.0, "7d": 7 * 86400.0}
MAIN_WINDOW = "24h"
HEALTHY_FROM = 80
DEGRADED_FROM = 50
_FAILURES_IN_A_ROW = 3
_FAST, _SLOW = 500.0, 10_000.0  # milliseconds


@dataclass(frozen=True, slots=True)
class Measurement:
    """One server over one window."""

    status: Condition
    score: int | None
    response_time: int | None
    """Milliseconds."""
    uptime: float | None
    """Per cent."""
    error_rate: float | None
    """Per cent."""
    last_check: float | None
    observations: int


UNKNOWN = Measurement("unknown", None, None, None, None, None, 0)


class Health:
    """Health by server, computed from observations of calls and probes."""

    def __init__(self, store: HealthStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def measure(self, server: str) -> dict[str, Measurement]:
        """The server over every window."""
        now = self._clock()
        seen = await self._store.observations(server, now - max(WINDOWS.values()))
        return {
            name: summarise([observation for observation in seen if observation.at >= now - span])
            for name, span in WINDOWS.items()
        }

    async def score(self, server: str) -> int | None:
        seen = await self._store.observations(server, self._clock() - WINDOWS[MAIN_WINDOW])
        return summarise(seen).score


def summarise(seen: Sequence[Observation]) -> Measurement:
    """The measurement from observations, oldest first."""
    if not seen:
        return UNKNOWN
    minutes: dict[int, bool] = {}
    for observation in seen:
        minute = int(observation.at // 60)
        minutes[minute] = minutes.get(minute, False) or observation.ok
    uptime = sum(minutes.values()) / len(minutes)
    error_rate = sum(observation.faulty for observation in seen) / len(seen)
    durations = [observation.duration_ms for observation in seen if observation.ok]
    middle = median(durations) if durations else None
    score = round(100 * (0.5 * uptime + 0.3 * (1 - error_rate) + 0.2 * _speed(middle)))
    return Measurement(
        _condition(score, seen),
        score,
        None if middle is None else round(middle),
        round(100 * uptime, 1),
        round(100 * error_rate, 1),
        seen[-1].at,
        len(seen),
    )


def _speed(middle: float | None) -> float:
    if middle is None:
        return 0.0
    if middle <= _FAST:
        return 1.0
    return max(0.0, 1 - math.log(middle / _FAST) / math.log(_SLOW / _FAST))


def _condition(score: int, seen: Sequence[Observation]) -> Condition:
    last = [observation.ok for observation in seen[-_FAILURES_IN_A_ROW:]]
    if not any(last) or score < DEGRADED_FROM:
        return "unhealthy"
    return "healthy" if last[-1] and score >= HEALTHY_FROM else "degraded"
