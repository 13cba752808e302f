"""Limits that replicas share, in Redis or Valkey: a token bucket in one script call, by the server's own clock.

While Redis is unreachable each replica grants its share of every limit from memory and logs that; after a second it
tries again. Loaded only if `shared_limits` is set. Implements LimitStore; stores nothing permanent.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError, ResponseError

from wicket_mcp.errors import ConfigError

log = logging.getLogger(__name__)

HOUR = 3600.0
ANSWER_WITHIN = 0.5
TRY_AGAIN = 1.0
PREFIX = "wicket:limit:"
MARK = "wicket:limits"
"""The key that marks the database as ours."""
MOST = 10_000
"""Buckets kept in memory while Redis is unreachable."""

# A hash holds the rest and its time; the wait is returned as text, because Redis truncates numbers to integers.
_TAKE = """
local most, rate, amount, owes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, at = tonumber(kept[1]) or most, tonumber(kept[2]) or now
if at - now > 86400 then  -- written by a wrong clock: it would not fill again for as long
  at = now
  redis.call('HSET', KEYS[1], 'at', string.format('%.6f', now))
end
left = math.min(most, left + math.max(0, now - at) * rate)
if left < 1 and not owes then return tostring((1 - left) / rate) end
if amount > 0 then
  left = left - amount
  redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', string.format('%.6f', now))
  redis.call('PEXPIRE', KEYS[1], math.ceil((most - left) / rate * 1000) + 1000)
end
if left < 1 and owes then return tostring((1 - left) / rate) end
return '0'
"""


class RedisLimits:
    """Open it with `RedisLimits.open(address)`."""

    def __init__(self, client: Redis, display: str) -> None:
        self._share: Callable[[], int] = lambda: 1
        """Among how many replicas a limit is divided while Redis is unreachable."""
        self._client = client
        self._shown = display
        self._script: Any = client.register_script(_TAKE)
        self._away_until = 0.0
        self._away = False
        self._own: dict[str, tuple[float, float]] = {}

    def divide_by(self, share: Callable[[], int]) -> None:
        """The number of replicas: without a shared counter, each grants its part."""
        self._share = share

    @classmethod
    async def open(cls, address: str) -> "RedisLimits":
        """Raises ConfigError for a wrong address or a database that is not ours."""
        if not address.startswith(("redis://", "rediss://", "unix://")):
            raise _wrong("the address of Redis cannot be read", "Write redis://host:port/0.")
        display = address.rpartition("@")[2].removeprefix("redis://").removeprefix("rediss://")
        try:
            client: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
                address, socket_timeout=ANSWER_WITHIN, socket_connect_timeout=ANSWER_WITHIN, retry=None
            )
        except ValueError as problem:
            raise _wrong(f"the address of Redis cannot be read: {problem}", "Write redis://host:port/0.") from None
        limits = cls(client, display)
        try:
            await limits._check()
        except BaseException:
            await client.aclose()
            raise
        return limits

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        """As LimitStore says, by Redis's clock."""
        return await self.take_from(f"{kind}:{principal}", float(per_hour), per_hour / HOUR)

    async def draw(self, principal: str, kind: str, per_hour: int, at: float, amount: float) -> float:
        """As LimitStore says, by Redis's clock."""
        return await self._change(f"{kind}:{principal}", float(per_hour), per_hour / HOUR, amount, owes=True)

    async def take_from(self, bucket: str, most: float, rate: float) -> float:
        """Take one token from a bucket of size `most` that gains `rate` per second: 0.0, or the seconds to wait."""
        return await self._change(bucket, most, rate, 1.0, owes=False)

    async def _change(self, bucket: str, most: float, rate: float, amount: float, *, owes: bool) -> float:
        now = time.monotonic()
        if now >= self._away_until:
            try:
                wait = float(await self._script(keys=[PREFIX + bucket], args=[most, rate, amount, int(owes)]))
            except (RedisError, OSError, TimeoutError) as problem:
                self._note_away(problem)
            else:
                self._note_back()
                return wait
        share = self._share()
        return self._change_own(bucket, max(1.0, most / share), rate / share, now, amount, owes=owes)

    async def close(self) -> None:
        await self._client.aclose()

    async def _check(self) -> None:
        try:
            await self._client.set(MARK, b"1", nx=True)
            if await self._client.get(MARK) != b"1":
                raise self._foreign()
        except (AuthenticationError, AuthorizationError, NoPermissionError) as problem:
            hint = "Check user and password: redis://user:password@host."
            raise _wrong(f"Redis at {self._shown} rejected the login: {problem}", hint) from None
        except ResponseError as problem:
            if "WRONGTYPE" in str(problem):
                raise self._foreign() from None
            hint = "Name a server that takes changes, and a database that it has: redis://host:port/0."
            raise _wrong(f"Redis at {self._shown} cannot be used: {problem}", hint) from None
        except (RedisError, OSError, TimeoutError) as problem:
            self._note_away(problem)

    def _foreign(self) -> ConfigError:
        hint = "Name another database of it: redis://host:port/1."
        return _wrong(f"Redis at {self._shown} has something else under '{MARK}'", hint)

    def _note_away(self, problem: Exception) -> None:
        self._away_until = time.monotonic() + TRY_AGAIN
        if not self._away:
            self._away = True
            log.warning(
                "Redis at %s cannot be reached (%s): each replica applies its share of every limit",
                self._shown,
                problem,
            )

    def _note_back(self) -> None:
        if self._away:
            self._away = False
            self._own.clear()
            log.warning("Redis at %s can be reached again: limits are shared again", self._shown)

    def _change_own(self, bucket: str, most: float, rate: float, now: float, amount: float, *, owes: bool) -> float:
        left, at = self._own.get(bucket, (most, now))
        left = min(most, left + (now - at) * rate)
        if left < 1.0 and not owes:
            return (1.0 - left) / rate
        if len(self._own) >= MOST:
            self._own.clear()
        self._own[bucket] = (left - amount, now)
        return (1.0 - left + amount) / rate if owes and left - amount < 1.0 else 0.0


def _wrong(message: str, hint: str) -> ConfigError:
    return ConfigError(message, key="shared_limits", hint=hint)
