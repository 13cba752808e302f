"""A script that uses up its processor time is told its line; and no tool is called twice to find it."""

import socket
import textwrap
from collections.abc import Iterator

import pytest
from msgspec import Raw
from scripts_world import World, run

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.scripts import Scripts
from wicket_mcp.scripts.frames import CALLS, REPLIES, Channel
from wicket_mcp.scripts.replay import Diverged, RecordedReply, ReplayChannel

LIMITS = Limits(cpu=0.3)
LOOPS = {
    "javascript, the second of two loops": """
        let n = 0;
        for (let i = 0; i < 10; i++) {
          n += i;
        }
        let m = Math.abs(n);
        while (true) {  // here
          m++;          // here
        }
    """,
    "javascript, a loop in a function": """
        function spin(by) {
          let n = 0;
          for (;;) {   // here
            n += by;   // here
          }
        }
        for (const k of [1, 2]) { k }
        spin(3);
    """,
    "javascript, a loop after a call": """
        const {sum} = await calculator.add({a: 1, b: 2});
        let n = 0;
        for (const k of [1, 2]) n += k;
        while (sum > 0) {   // here
          n = (n + 1) % 7;  // here
        }
        return n;
    """,
    "javascript, a loop that awaits nothing": """
        await calculator.add({a: 1, b: 2});
        let n = 0;
        for (;;) {       // here
          await null;    // here
          n++;           // here
        }
    """,
    "javascript, a body without braces in a callback": """
        const fine = [3, 1, 2].sort();
        [1].forEach((k) => {
          do          // here
            k ^= 1;   // here
          while (k < 5);
        });
    """,
    "javascript, inside a catch-all": """
        for (const k of [1, 2]) { k }
        for (;;) {        // here
          try {           // here
            for (;;) {}   // here
          } catch {}
        }
    """,
    "typescript, a loop behind types": """
        interface Sum {
          sum: number
        }
        const s: Sum = await calculator.add({a: 1, b: 2});
        for (const k of [1]) { k }
        while (s.sum as number > 0) {  // here
        }
    """,
    "python, the second of two loops": """
        n = 0
        for i in range(10):
            n += i
        while True:     # here
            n += 1      # here
    """,
    "python, a loop in a function": """
        def spin(by):
            n = 0
            while True:   # here
                n += by   # here
        for k in [1, 2]:
            k
        spin(3)
    """,
    "python, a loop in a method": """
        class Wheel:
            def spin(self):
                while True:   # here
                    pass      # here
        for k in [1]:
            k
        Wheel().spin()
    """,
    "python, a loop after a call": """
        total = (await calculator.add(a=1, b=2))["sum"]
        n = 0
        for k in [1, 2]:
            n += k
        while total > 0:      # here
            n = (n + 1) % 7   # here
        n
    """,
    "python, one of three that run together": """
        import asyncio
        async def one(n):
            sum = (await calculator.add(a=n, b=n))["sum"]
            while sum == 4:  # here
                n += 1       # here
            return n
        await asyncio.gather(one(1), one(2), one(3))
    """,
    "lua, the second of two loops": """
        local n = 0
        for i = 1, 10 do
          n = n + i
        end
        while true do  -- here
          n = n + 1    -- here
        end            -- here
    """,
    "lua, a loop after a call": """
        local n = calculator.add({a = 1, b = 2}):await().sum
        for i = 1, 3 do n = n + i end
        repeat         -- here
          n = n + 1    -- here
        until n < 0    -- here
    """,
}


@pytest.mark.parametrize("case", LOOPS)
async def test_a_loop_without_end_is_named_by_its_line(scripts: Scripts, case: str) -> None:
    source = textwrap.dedent(LOOPS[case])
    world = World()
    outcome = await run(scripts, case.partition(",")[0], source, world, LIMITS)
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "cpu")
    assert outcome.problem.source_line.endswith("here")
    assert outcome.problem.line is not None
    assert outcome.problem.source_line == source.split("\n")[outcome.problem.line - 1]
    calls = 3 if "three" in case else source.count("calculator.add(")
    assert len(world.asked) == calls
    assert [call.state for call in outcome.calls] == ["ok"] * calls


async def test_chance_falls_the_same_way_the_second_time(scripts: Scripts) -> None:
    source = "await (Math.random() < 0.5 ? mirror.echo({v: 1}) : calculator.add({a: 1, b: 1}));\nfor (;;) {}"
    for _ in range(4):
        outcome = await run(scripts, "javascript", source, limits=Limits(cpu=0.05))
        assert outcome.problem is not None
        assert outcome.problem.line == 2


async def test_a_script_whose_answers_are_too_many_to_keep_has_no_line(scripts: Scripts) -> None:
    world = World()
    source = "for i in range(4):\n    await calculator.blob(n=1900000)\nwhile True: pass"
    outcome = await run(scripts, "python", source, world, Limits(cpu=0.5))
    assert outcome.problem is not None
    assert (outcome.problem.kind, outcome.problem.line) == ("cpu", None)
    assert len(world.asked) == 4


@pytest.fixture
def channel() -> Iterator[Channel]:
    with socket.socket() as real:
        yield Channel(real)


def replay_of(channel: Channel, *answers: tuple[int, str, str]) -> ReplayChannel:
    return ReplayChannel(
        channel, [RecordedReply(number, server, tool, True, Raw(b"%d" % number)) for number, server, tool in answers]
    )


def test_a_replay_answers_in_the_order_of_the_first_time(channel: Channel) -> None:
    replay = replay_of(channel, (2, "calculator", "add"), (1, "mirror", "echo"), (3, "mirror", "echo"))
    replay.send(CALLS, b'[[1,"mirror","echo",{}],[2,"calculator","add",{}]]')
    assert [replay.receive(), replay.receive()] == [(REPLIES, b"[[2,true,2]]"), (REPLIES, b"[[1,true,1]]")]


def test_a_script_that_goes_another_way_or_further_is_not_answered(channel: Channel) -> None:
    replay = replay_of(channel, (1, "calculator", "add"))
    replay.send(CALLS, b'[[2,"calculator","add",{}]]')
    with pytest.raises(Diverged):
        replay.receive()
    with pytest.raises(Diverged):
        replay.send(CALLS, b'[[1,"mirror","echo",{}]]')
