"""A child that was taken over says anything it likes: the gateway ends it, names a crash, and goes on."""

import asyncio
import os
import signal
import socket
import struct
import subprocess

import pytest
from scripts_world import API, World, run

from wicket.scripts import Limits, Outcome, Scripts
from wicket.scripts.nursery import Child, End
from wicket.scripts.session import Session
from wicket.scripts.worker import Job, Order


def frame(kind: bytes, payload: bytes) -> bytes:
    return struct.pack("!cI", kind, len(payload)) + payload


GARBAGE: dict[str, bytes] = {
    "noise": os.urandom(64).replace(b"\x00", b"\xff") * 64,
    "an unknown kind": frame(b"Z", b"{}"),
    "a length of four gigabytes": struct.pack("!cI", b"D", 0xFFFFFFFF) + b"x" * 1024,
    "broken JSON": frame(b"C", b'[[1,"calculator","add",{'),
    "deep nesting": frame(b"D", b'{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a giant integer": frame(b"D", b'{"value":' + b"9" * 100_000 + b"}"),
    "calls that are no list": frame(b"C", b'{"id":1}'),
    "a call of the wrong shape": frame(b"C", b'[[true,"calculator","add",{}]]'),
    "arguments that are no object": frame(b"C", b'[[1,"calculator","add",[1]]]'),
    "the same call number twice": frame(b"C", b'[[1,"calculator","add",{}],[1,"calculator","add",{}]]'),
    "an answer that is no object": frame(b"D", b"[]"),
    "an error that is no object": frame(b"E", b'"boo"'),
    "printed numbers": frame(b"P", b"1"),
    "a name without end": frame(b"C", b'[[1,"' + b"a" * 5000 + b'","add",{}]]'),
}


class Impostor:
    """A session whose child is a real process, with the test at the other end of its socket."""

    def __init__(self, world: World, limits: Limits) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.theirs.setblocking(False)
        self.process = subprocess.Popen(["sleep", "60"])
        self._child = Child(1, Order("vm", limits.memory, limits.cpu), ours)
        self._child.arrive(self.process.pid, os.pidfd_open(self.process.pid))
        job = Job("lua", "return 1", {}, limits.cpu, limits.memory, 200, 1000, 1000, 1000, {})
        self._session = Session(self._child, job, API, world, limits)

    async def plays(self, said: bytes) -> Outcome:
        speaking = asyncio.get_running_loop().sock_sendall(self.theirs, said)
        outcome, _ = await asyncio.gather(self._session.run(), speaking)
        return outcome

    async def answers(self) -> Outcome:
        return await self._session.run()

    def dies(self) -> None:
        self.process.kill()
        self._child.finish(End(-signal.SIGKILL, 0.0, 0))

    def is_dead(self) -> bool:
        self.theirs.close()
        return self.process.wait(5) == -9


@pytest.mark.parametrize("way", GARBAGE)
async def test_garbage_is_a_crash_and_the_process_is_killed(way: str) -> None:
    world = World()
    impostor = Impostor(world, Limits(wall=5))
    outcome = await impostor.plays(GARBAGE[way])
    assert outcome.state == "crash"
    assert outcome.problem is not None
    assert impostor.is_dead()
    assert not any(arguments for _, _, arguments in world.asked)


async def test_a_child_that_hangs_up_is_a_crash() -> None:
    impostor = Impostor(World(), Limits(wall=5))
    half_a_frame = frame(b"D", b'{"value": 1}')[:8]
    impostor.theirs.send(half_a_frame)
    impostor.theirs.shutdown(socket.SHUT_WR)
    impostor.dies()
    outcome = await impostor.answers()
    assert outcome.state == "crash"
    assert impostor.is_dead()


async def test_more_calls_than_allowed_end_the_run_whatever_the_child_counts() -> None:
    world = World()
    calls = ",".join(f'[{n},"mirror","echo",{{"v":1}}]' for n in range(1, 300))
    impostor = Impostor(world, Limits(wall=5))
    outcome = await impostor.plays(frame(b"C", f"[{calls}]".encode()))
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "calls")
    assert len(outcome.calls) == 200
    assert impostor.is_dead()


async def test_a_tool_outside_the_api_is_refused_by_the_gateway_itself() -> None:
    world = World()
    impostor = Impostor(world, Limits(wall=5))
    said = frame(b"C", b'[[1,"secrets","read",{}],[2,"tools","steal",{}]]')
    running = asyncio.gather(impostor.plays(said))
    reply = await asyncio.get_running_loop().sock_recv(impostor.theirs, 65536)
    while b"secrets.read" not in reply or b"tools.steal" not in reply:
        reply += await asyncio.get_running_loop().sock_recv(impostor.theirs, 65536)
    await asyncio.get_running_loop().sock_sendall(impostor.theirs, frame(b"D", b"{}"))
    (outcome,) = await running
    assert world.asked == []
    assert [call.state for call in outcome.calls] == ["failed", "failed"]
    assert impostor.is_dead()


async def test_a_child_that_stops_reading_does_not_outlive_its_wall_time() -> None:
    world = World()
    calls = ",".join(f'[{n},"calculator","blob",{{"n":1000000}}]' for n in range(1, 9))
    impostor = Impostor(world, Limits(wall=1))
    outcome = await impostor.plays(frame(b"C", f"[{calls}]".encode()))
    assert outcome.state in ("limit", "crash")
    assert impostor.is_dead()


async def test_the_engine_serves_the_next_script_after_a_crash(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return string.rep('x', 10)")
    assert outcome.value == "x" * 10
