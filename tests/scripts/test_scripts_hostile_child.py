"""A child that was taken over says anything it likes: the gateway ends it, names a crash, and goes on."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from scripts_world import API, World, family, run

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.model import Json, JsonObject
from wicket_mcp.scripts import Outcome, Scripts
from wicket_mcp.scripts.calls import CallKind
from wicket_mcp.scripts.child import Child, End
from wicket_mcp.scripts.limits import MIB
from wicket_mcp.scripts.session import Session
from wicket_mcp.scripts.worker import Job, Kind, Order


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

    def __init__(self, world: World, limits: Limits, kind: Kind = "vm", does: str = "") -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.theirs.setblocking(False)
        command = [sys.executable, "-S", "-E", "-c", does] if does else ["sleep", "60"]
        self.process = subprocess.Popen(command, process_group=0)
        self._child = Child(1, Order(kind, limits.memory, limits.cpu), ours)
        self._child.arrive(self.process.pid, os.pidfd_open(self.process.pid))
        job = Job("lua", "return 1", {}, limits.cpu, limits.memory, 200, 1000, 1000, 1000, {})
        self._session = Session(self._child, job, API, world, limits)

    async def plays(self, said: bytes) -> Outcome:
        speaking = asyncio.get_running_loop().sock_sendall(self.theirs, said)
        outcome, _ = await asyncio.gather(self._session.run(), speaking)
        return outcome

    async def lives(self, said: bytes = b"") -> Outcome:
        """Says this, and does what it does until it is ended; with it ends whatever it started."""
        running = asyncio.gather(self._session.run())
        try:
            await asyncio.get_running_loop().sock_sendall(self.theirs, said)
            await asyncio.to_thread(self.process.wait)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.theirs.close()
        return (await running)[0]

    async def floods(self, frame: bytes) -> Outcome:
        """Says the same until nobody listens."""
        running = asyncio.gather(self._session.run())
        with contextlib.suppress(ConnectionError):
            while not running.done():
                await asyncio.get_running_loop().sock_sendall(self.theirs, frame)
        return (await running)[0]

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


@pytest.mark.promise("V27", "A message of megabytes from a script's process is parsed outside the event loop.")
async def test_v27_large_messages_of_a_child_leave_others_their_turn() -> None:
    impostor = Impostor(World(), Limits(wall=20))
    running = asyncio.gather(impostor.plays(frame(b"D", b'{"value":[' + b"[[],1]," * 90_000 + b"1]}")))
    turns = 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    ((outcome,), _) = (await running), impostor.is_dead()
    assert outcome.state == "crash", "so many values are refused"
    assert turns > 20


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
    assert [call.state for call in outcome.calls] == ["not_sent", "not_sent"]
    assert impostor.is_dead()


async def test_a_child_that_stops_reading_does_not_outlive_its_wall_time() -> None:
    world = World()
    calls = ",".join(f'[{n},"calculator","blob",{{"n":1000000}}]' for n in range(1, 9))
    impostor = Impostor(world, Limits(wall=1))
    outcome = await impostor.plays(frame(b"C", f"[{calls}]".encode()))
    assert outcome.state in ("limit", "crash")
    assert impostor.is_dead()


FLOODS = {
    "large texts": frame(b"P", b'"' + b"x" * (1 << 20) + b'"'),
    "no text at all": frame(b"P", b'""') * 10_000,
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_child_that_never_stops_talking_is_ended(flood: str) -> None:
    impostor = Impostor(World(), Limits(wall=120))
    outcome = await impostor.floods(FLOODS[flood])
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "output")
    assert impostor.is_dead()


async def test_a_child_earns_no_processor_time_by_talking() -> None:
    impostor = Impostor(World(), Limits(cpu=0.2, wall=12), does="while True: pass")
    outcome = await impostor.lives(frame(b"P", b'"' + b"x" * (3 << 20) + b'"') * 9)
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "cpu")
    assert impostor.is_dead()


FORKS = {
    "children that work": "for _ in range(2): os.fork() or work()\nsignal.pause()",
    "grandchildren that work": "os.fork() or os.fork() or work()\nsignal.pause()",
}
CHURN = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    pid = os.fork()
    if not pid:
        while time.process_time() < 0.01: pass
        os._exit(0)
    try: os.waitpid(pid, 0)
    except ChildProcessError: pass
"""
WORK = "import os, signal, time\ndef work():\n    while True: pass\n"


@pytest.mark.parametrize("way", FORKS)
async def test_processor_time_of_whatever_a_child_starts_is_its_own(way: str) -> None:
    impostor = Impostor(World(), Limits(cpu=0.3, wall=30), "python", WORK + FORKS[way])
    outcome = await impostor.lives()
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "cpu")
    assert impostor.is_dead()


CROWDS = {
    "many at once": "for _ in range(20): os.fork() or signal.pause()\nsignal.pause()",
    "one after the other": CHURN,
    "threads": """
import threading
threading.stack_size(65536)
for _ in range(1000 + 4 * os.cpu_count()): threading.Thread(target=signal.pause, daemon=True).start()
signal.pause()
""",
}


@pytest.mark.promise("V13", "A script that starts endless processes is ended with all of them.")
@pytest.mark.parametrize("way", CROWDS)
async def test_v13_a_child_that_starts_a_crowd_is_ended(way: str) -> None:
    impostor = Impostor(World(), Limits(cpu=20, wall=40), "python", WORK + CROWDS[way])
    outcome = await impostor.lives()
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.message) == ("crash", "The script's process started too many others.")
    assert impostor.is_dead()


KEEPER = """
import os, signal, sys, time
from wicket_mcp.scripts import jail
jail.adopt_orphans()
leader = os.fork()
if not leader:
    os.setpgid(0, 0)
    between = os.fork()
    if not between:
        os.fork() and os._exit(0)
        while time.process_time() < 0.32: pass  # the system rounds two parts of it down to a hundredth
        print(os.getpgid(0), flush=True)
        signal.pause()
    os.waitpid(between, 0)
    signal.pause()
sys.stdin.read()
os.killpg(leader, signal.SIGKILL)
"""


@pytest.fixture
def keeper() -> Iterator[subprocess.Popen[str]]:
    """A process whose child left an orphan that worked for over 0.3 s; it says the child's number when that is done."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", KEEPER], stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.communicate()


async def test_processor_time_of_orphans_is_counted(keeper: subprocess.Popen[str]) -> None:
    assert keeper.stdout
    leader = int(keeper.stdout.readline())
    adopted = [pid for pid in family(keeper.pid) if pid != leader]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = Child(1, Order("python", MIB, 1), ours, lambda: adopted)
        child.arrive(leader, -1)
        assert child.cpu_seconds() >= 0.3
        assert not child.crowded


async def test_the_engine_serves_the_next_script_after_a_crash(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return string.rep('x', 10)")
    assert outcome.value == "x" * 10


class HalfCharacters(World):
    """Answers every call with half of a surrogate pair."""

    def _answer(self, kind: CallKind, name: str, arguments: JsonObject) -> Json:
        return {"sum": "half \ud800"}


@pytest.mark.parametrize(
    ("language", "source", "outcome_state"),
    [
        ("python", "return '\ud800'", "done"),
        ("python", "return (await calculator.add(a=1, b=2))['sum']", "done"),
        ("javascript", "return '\ud800'", "done"),
        ("javascript", "throw new Error('\\ud800')", "error"),
        ("javascript", "return (await calculator.add({a: 1, b: 2})).sum", "done"),
        ("lua", "return '\ud800'", "done"),
        ("lua", "return calculator.add({a = 1, b = 2})", "done"),
    ],
)
async def test_half_a_character_ends_no_process(
    scripts: Scripts, language: str, source: str, outcome_state: str
) -> None:
    outcome = await run(scripts, language, source, HalfCharacters())
    assert outcome.state == outcome_state, outcome.problem
