"""Everything that can go wrong with replicas, one thing after the other, and what became of the calls meanwhile.

`Faults` does it: Redis stopped, PostgreSQL restarted, one replica killed, another rolled, a third cut off from the
database. The test and the benchmark say how long each part lasts. `report` is the account, part by part.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import House, replicas
from tests.cluster.load import is_typed
from tests.cluster.mixed import Mixed, Upstreams, owned_twice, upstreams
from tests.peers.namespace import Namespace
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer

Pause = Callable[[], Awaitable[object]]
_UNNOTICED = 12  # calls while the balancer has not yet read that its connections are closed
LEAVE = '[http]\nleave_after = "1s"\n'


@dataclass
class Part:
    """What became of the calls that ended while one thing went wrong."""

    name: str
    calls: list[str]
    failed: dict[str, Any] = field(default_factory=dict[str, Any])
    untyped: list[str] = field(default_factory=list[str])
    """Failed without an error that says what happened."""
    lost: list[str] = field(default_factory=list[str])
    """Neither executed nor answered with an error."""
    doubled: list[str] = field(default_factory=list[str])
    """Executed more than once."""


class Faults:
    """See the module's docstring."""

    def __init__(
        self,
        house: House,
        load: Mixed,
        upstreams: Upstreams,
        postgres: Postgres,
        redis: RedisServer,
        machine: Namespace,
    ) -> None:
        self.house, self.load, self.upstreams = house, load, upstreams
        self.begun_before_death: set[str] = set()
        """The calls that were begun before the killed replica had ended and the balancer had noticed, which uses a
        connection that it kept until then."""
        self._postgres, self._redis, self._machine = postgres, redis, machine
        self._parts: list[tuple[str, int]] = []

    async def run(self, pause: Pause, cut_off: Pause) -> None:
        """`pause` lets calls go on for a while; `cut_off` returns when others have taken over from who is cut off."""
        third, rolled, killed = self.house.replicas
        await self.load.start()
        self._begin("nothing")
        await pause()
        self._begin("Redis stopped, and back")
        await asyncio.to_thread(self._redis.stop)
        await pause()
        await asyncio.to_thread(self._redis.start)
        self._begin("PostgreSQL restarted")
        await asyncio.to_thread(self._postgres.stop)
        await asyncio.to_thread(self._postgres.start)
        await pause()
        self._begin("one killed (kill -9), and back")
        await killed.kill()
        await self.load.pass_by(_UNNOTICED)
        self.begun_before_death = {*self.load.sent}
        await pause()
        await killed.start()
        self._begin("another one rolled")
        assert await rolled.stop() == 0
        await pause()
        await rolled.start()
        self._begin("a third cut off from PostgreSQL")
        self._machine.cut()
        await cut_off()
        self._machine.mend()
        await third.ready()
        await pause()
        await self.load.stop()

    def report(self) -> list[Part]:
        counted = Counter(self.upstreams.executed)
        ends = [start for _, start in self._parts[1:]] + [len(self.load.ended)]
        return [
            self._account(name, self.load.ended[start:end], counted)
            for (name, start), end in zip(self._parts, ends, strict=True)
        ]

    @property
    def owned_twice(self) -> int:
        """Commands that ran twice at once, by the commands' own account and by their owners' epochs."""
        return self.upstreams.executed.count("twice") + len(owned_twice(self.house.replicas))

    def _begin(self, name: str) -> None:
        self._parts.append((name, len(self.load.ended)))

    def _account(self, name: str, calls: Sequence[str], counted: Counter[str]) -> Part:
        failed = {message: self.load.failed[message] for message in calls if message in self.load.failed}
        return Part(
            name,
            list(calls),
            failed,
            untyped=[message for message, problem in failed.items() if not is_typed(problem)],
            lost=[message for message in calls if message not in counted and message not in failed],
            doubled=[message for message in calls if counted[message] > 1],
        )


@asynccontextmanager
async def prepare(folder: Path, each: int, clients: int) -> AsyncGenerator[Faults]:
    """Three replicas, one of them on a machine of its own, over `each` servers over HTTP and as many commands."""
    async with AsyncExitStack() as stack:
        machine = stack.enter_context(Namespace())
        postgres = stack.enter_context(Postgres(machine.severed, machine.net))
        redis = stack.enter_context(RedisServer(host=machine.outside))
        servers = await stack.enter_async_context(upstreams(folder, each, machine.outside))
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        options = f'shared_limits = "{redis.address}"\n{LEAVE}'
        running = replicas(folder, postgres.database(), servers.servers, options=options, machine=machine)
        house = await stack.enter_async_context(running)
        load = Mixed(http, house.address, tuple(servers.servers), clients)
        yield Faults(house, load, servers, postgres, redis, machine)
