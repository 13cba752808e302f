"""Replicas over a simulated engine: production ownership, lease, heartbeat, comparison and guard of the child.

A `World` carries messages between them and keeps the account: which process executed which call, under which epoch. It
says at once if one runs under an epoch that another owner has followed, or twice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from tests.simulation.clock import Machine, beyond, simulate
from tests.simulation.engine import Engine, SimulatedMembers
from wicket_mcp.cluster.comparison import Comparison
from wicket_mcp.cluster.members import Member
from wicket_mcp.errors import Crashed, Moved, NotSent, WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Connection
from wicket_mcp.upstream.lock_ownership import LockOwnership
from wicket_mcp.upstream.owned_child import OwnedChild
from wicket_mcp.upstream.ownership import Claim
from wicket_mcp.upstream.silence import Silence

T = TypeVar("T")
ANSWERS_WITHIN = 2.0
KEPT_ALIVE = 11.0
"""Seconds after which the kernel gives up a connection whose other end cannot be reached."""


class Child:
    """A server's process. It executes what it is sent, and is not frozen with its gateway."""

    def __init__(self, world: "World", key: str, epoch: int) -> None:
        self.epoch = epoch
        self.alive = True
        self._world = world
        self._key = key

    def request(self, method: str, params: JsonObject, *_: Any) -> Awaitable[JsonObject]:
        if not self.alive:
            raise NotSent(self._key, "It has ended.")
        self._world.execute(self._key, self.epoch, params["message"])
        return self._answer(params["message"])

    async def _answer(self, message: str) -> JsonObject:
        await asyncio.sleep(0.01)
        if not self.alive:
            raise Crashed(self._key, "It was stopped.")
        return {"message": message, "epoch": self.epoch}

    async def close(self) -> None:
        self.alive = False


class World:
    """See the module's docstring."""

    def __init__(self, names: str = "abc", seed: int = 0) -> None:
        self.engine = Engine(seed)
        self.executed: list[tuple[str, int, str]] = []
        self.wrong: list[str] = []
        self.dead: set[str] = set()
        self.parted: set[frozenset[str]] = set()
        """The pairs between which no message passes."""
        self.replicas = {name: Replica(self, name) for name in names}

    async def join(self) -> None:
        for replica in self.replicas.values():
            await replica.machine.run(replica.members.join())
        await asyncio.sleep(1)  # until all know one another

    async def close(self) -> None:
        await self.engine.mend()
        for replica in self.replicas.values():
            replica.machine.thaw()
            await replica.machine.run(replica.close())

    async def call(self, name: str, key: str, message: str) -> JsonObject:
        """One call of a client at a replica."""
        replica = self.replicas[name]
        return await replica.machine.run(replica.call(key, message))

    def part(self, name: str) -> None:
        """No other replica hears of this one any more, nor it of them."""
        self.parted |= {frozenset((name, other)) for other in self.replicas if other != name}

    def execute(self, key: str, epoch: int, message: str) -> None:
        newest = max((known for name, known, _ in self.executed if name == key), default=0)
        if epoch < newest:
            self.wrong.append(f"{message} ran under epoch {epoch} after another under {newest}")
        if any(known == message for _, _, known in self.executed):
            self.wrong.append(f"{message} ran twice")
        self.executed.append((key, epoch, message))

    def running(self, key: str) -> list[str]:
        """The replicas that run a process for the key."""
        return [name for name, replica in self.replicas.items() if (child := replica.children.get(key)) and child.alive]

    async def send(self, sender: str, receiver: str, work: Callable[[], T]) -> T:
        """Do something at another replica. Raises ConnectionRefusedError if it is dead, ConnectionResetError if it
        cannot be reached for long.
        """

        async def travel() -> T:
            await asyncio.sleep(self.engine.random.uniform(0.001, 0.05))
            if receiver in self.dead:
                raise ConnectionRefusedError
            if frozenset((sender, receiver)) in self.parted:
                await asyncio.sleep(KEPT_ALIVE)
                raise ConnectionResetError
            return await self.replicas[receiver].machine.run(_do(work))

        return await asyncio.shield(beyond(travel()))  # what was sent is on its way, whoever still waits

    async def ask(self, sender: str, receiver: str, work: Callable[[], T]) -> "T | None":
        """The same, but None if there is no answer in time."""
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                return await self.send(sender, receiver, work)
        except TimeoutError:
            return None


def play(story: Callable[[World], Awaitable[None]], seed: int = 0) -> World:
    """Tell a story of three replicas; the world at its end. Nothing may go wrong in it."""

    async def main() -> World:
        world = World(seed=seed)
        await world.join()
        try:
            await story(world)
        finally:
            await world.close()
        assert world.wrong == []
        return world

    return simulate(main)


async def _do(work: Callable[[], T]) -> T:
    return work()


class Replica:
    """One gateway, on a machine of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.machine = Machine()
        self.world = world
        self.members = SimulatedMembers(world.engine, name)
        self.ownership = LockOwnership(self.members, self._still_owns, self._locate, self._answers)
        self.comparison = Comparison(self.members, self._ask_warning)
        self.children: dict[str, Child] = {}
        self._links: set[Claim] = set()
        self.located: list[str] = []
        """Whom we asked for owners."""
        self._tasks = Tasks()
        self.members.on_lost.append(self.ownership.give_up)
        self.members.on_back.append(self._claim_again)

    def _claim_again(self) -> None:
        self._tasks.start(self.ownership.claim_again(), "claim again")

    async def close(self) -> None:
        await self.ownership.close()
        await self.comparison.close()
        await self.members.close()
        await self._tasks.close()

    async def call(self, key: str, message: str) -> JsonObject:
        """One call, as a client makes it here: sent again only if it was certainly not sent."""
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self._call_once(key, message)
                except NotSent:
                    await asyncio.sleep(0.1)

    async def _call_once(self, key: str, message: str) -> JsonObject:
        claim = await self.ownership.claim(key, lambda: self._stop(key))
        if claim.ours:
            return await self._use_own(key, claim, message)
        await self._connect(key, claim)
        answer = asyncio.get_running_loop().create_future()
        silence = Silence(
            lambda: not answer.done(),
            lambda: self.ownership.doubt(key, claim),
            lambda: answer.set_exception(Crashed(key, "The owner stands still.")),
        )
        silence.watch()
        asking = self._tasks.start(self._use_others(key, claim, message, answer), "ask the owner")
        try:
            return await answer
        except (Crashed, NotSent):
            self._links.discard(claim)
            raise
        finally:
            await silence.close()
            asking.cancel()

    async def _connect(self, key: str, claim: Claim) -> None:
        """Open a connection to the owner, unless there is one."""
        if claim in self._links:
            return
        owner = self.world.replicas[claim.address]
        try:
            owns = await self.world.ask(self.name, claim.address, lambda: owner.ownership.epoch(key) == claim.epoch)
        except ConnectionRefusedError:
            owns = False
        if owns is None:
            await self.ownership.doubt(key, claim)
        if not owns:
            raise NotSent(key, "It cannot be reached, or has another owner.")
        self._links.add(claim)

    async def _use_others(self, key: str, claim: Claim, message: str, answer: "asyncio.Future[JsonObject]") -> None:
        owner = self.world.replicas[claim.address]

        def serve() -> "Awaitable[JsonObject]":
            if owner.ownership.epoch(key) != claim.epoch:
                raise Moved(key, "Another owner.")
            return owner._tasks.start(owner._use_own(key, claim, message), "serve a member", awaited=True)

        try:
            result = await (await self.world.send(self.name, claim.address, serve))
        except ConnectionError:
            problem = Crashed(key, "The owner disconnected.")
        except WicketError as error:
            problem = error
        else:
            if not answer.done():
                answer.set_result(result)
            return
        if not answer.done():
            answer.set_exception(problem)

    async def _use_own(self, key: str, claim: Claim, message: str) -> JsonObject:
        child = self.children.get(key)
        if child is None or not child.alive:
            child = self.children[key] = Child(self.world, key, claim.epoch)

        async def release() -> None: ...

        connection = cast("Connection", child)
        owned = OwnedChild(key, connection, lambda: self.ownership.epoch(key) == claim.epoch, release)
        return await owned.request("tools/call", {"message": message})

    def _stop(self, key: str) -> None:
        if (child := self.children.get(key)) is not None:
            child.alive = False

    async def _still_owns(self, member: Member, key: str, epoch: int) -> bool | None:
        try:
            other = self.world.replicas[member.id]
            return await self.world.ask(self.name, member.id, lambda: other.ownership.epoch(key) == epoch)
        except ConnectionRefusedError:
            return False

    async def _locate(self, member: Member, key: str) -> Claim | None:
        self.located.append(member.id)
        other = self.world.replicas[member.id]
        try:
            epoch = await self.world.ask(self.name, member.id, lambda: other.ownership.epoch(key))
        except ConnectionRefusedError:
            return None
        return Claim(epoch, member.address) if epoch else None

    async def _answers(self, address: str) -> bool:
        try:
            return await self.world.ask(self.name, address, lambda: True) or False
        except ConnectionRefusedError:
            return False

    async def _ask_warning(self, member: Member) -> str | None:
        other = self.world.replicas[member.id]
        try:
            return await self.world.ask(self.name, member.id, lambda: other.members.problem)
        except ConnectionRefusedError:
            return None
