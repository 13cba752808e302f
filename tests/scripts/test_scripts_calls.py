"""A call that a script started is made, waited for and listed, however the script ends."""

import asyncio

import pytest
from scripts_world import API, World, run, structured

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import BadArguments, Crashed, Denied, RateLimited, Unavailable, WicketError
from wicket_mcp.model import Json, JsonObject
from wicket_mcp.scripts import Scripts
from wicket_mcp.scripts.calls import CallKind

FAILS_AFTER_TWO_CALLS = {
    "lua": "calculator.add({a = 1, b = 1})\ncalculator.fail()\nerror('too early')",
    "javascript": "calculator.add({a: 1, b: 1});\ncalculator.fail();\nthrow new Error('too early')",
    "python": "one = calculator.add(a=1, b=1)\ntwo = calculator.fail()\nraise ValueError('too early')",
}
ENDLESS_AFTER_A_CALL = {
    "lua": "calculator.add({a = 1, b = 1})\nwhile true do end",
    "javascript": "calculator.add({a: 1, b: 1});\nfor (;;) {}",
    "python": "one = calculator.add(a=1, b=1)\nwhile True: pass",
}
OUT_OF_MEMORY_AFTER_A_CALL = {
    "lua": "calculator.add({a = 1, b = 1})\nlocal t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
    "javascript": "calculator.add({a: 1, b: 1});\nconst t = []; for (;;) t.push(new Uint8Array(1000000).fill(1))",
    "python": "one = calculator.add(a=1, b=1)\nt = []\nwhile True:\n    t.append('x' * 1000000)",
}


@pytest.mark.parametrize("language", FAILS_AFTER_TWO_CALLS)
async def test_calls_are_made_though_the_script_fails_right_after(scripts: Scripts, language: str) -> None:
    world = World()
    outcome = await run(scripts, language, FAILS_AFTER_TWO_CALLS[language], world)
    assert outcome.problem is not None
    assert "too early" in outcome.problem.message
    assert outcome.problem.line == 3
    assert [name for _, name, _ in world.asked] == ["calculator.add", "calculator.fail"]
    assert [call.state for call in outcome.calls] == ["ok", "failed"]


@pytest.mark.parametrize("language", ENDLESS_AFTER_A_CALL)
async def test_a_call_is_made_though_the_script_runs_out_of_time_after_it(scripts: Scripts, language: str) -> None:
    world = World()
    outcome = await run(scripts, language, ENDLESS_AFTER_A_CALL[language], world, Limits(cpu=0.3))
    assert outcome.problem is not None
    assert (outcome.problem.kind, outcome.problem.line) == ("cpu", 2)
    assert [name for _, name, _ in world.asked] == ["calculator.add"]
    assert [str(call) for call in outcome.calls] == ["calculator.add: ok"]


@pytest.mark.parametrize("language", OUT_OF_MEMORY_AFTER_A_CALL)
async def test_a_call_is_made_though_the_script_runs_out_of_memory_after_it(scripts: Scripts, language: str) -> None:
    outcome = await run(scripts, language, OUT_OF_MEMORY_AFTER_A_CALL[language])
    assert outcome.problem is not None
    assert outcome.problem.kind == "memory"
    assert [str(call) for call in outcome.calls] == ["calculator.add: ok"]


@pytest.mark.parametrize("language", FAILS_AFTER_TWO_CALLS)
async def test_a_failed_script_is_answered_when_its_calls_have_ended(scripts: Scripts, language: str) -> None:
    async def when_the_script_is_gone(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        while scripts.status().running:
            await asyncio.sleep(0)
        return structured({"sum": 2})

    outcome = await scripts.run(FAILS_AFTER_TWO_CALLS[language], language, API, when_the_script_is_gone)
    assert outcome.state == "error"
    assert [call.state for call in outcome.calls] == ["ok", "ok"]


@pytest.mark.parametrize("language", FAILS_AFTER_TWO_CALLS)
async def test_a_call_that_never_ends_is_waited_for_no_longer_than_the_wall(scripts: Scripts, language: str) -> None:
    never = World(together=3)
    outcome = await run(scripts, language, FAILS_AFTER_TWO_CALLS[language], never, Limits(wall=1.5))
    assert outcome.problem is not None
    assert "too early" in outcome.problem.message, "the script's own mistake, not the wall"
    assert [call.state for call in outcome.calls] == ["unfinished", "unfinished"]
    assert never.in_flight == 0, "they were cancelled"


@pytest.mark.parametrize("language", FAILS_AFTER_TWO_CALLS)
async def test_a_failure_is_told_though_answers_are_on_their_way(scripts: Scripts, language: str) -> None:
    floods = {
        "lua": "for i = 1, 60 do calculator.add({a = i, b = i}) end error('too early')",
        "javascript": "for (let i = 0; i < 60; i++) calculator.add({a: i, b: i}); throw new Error('too early')",
        "python": "for i in range(60):\n    call = calculator.add(a=i, b=i)\nraise ValueError('too early')",
    }
    outcomes = [await run(scripts, language, floods[language]) for _ in range(10)]
    assert {(outcome.state, len(outcome.calls)) for outcome in outcomes} == {("error", 60)}


async def test_calls_in_the_queue_are_made_too(scripts: Scripts) -> None:
    world = World(together=2)
    source = "for i = 1, 20 do calculator.add({a = i, b = i}) end error('too early')"
    outcome = await run(scripts, "lua", source, world, Limits(in_flight=2))
    assert outcome.state == "error"
    assert world.most_in_flight == 2
    assert [call.state for call in outcome.calls] == ["ok"] * 20


WRONG_AFTER_A_GOOD_ONE = {
    "lua": "mirror.echo({v = 1}):await()\ncalculator.add({a = 1}):await()",
    "javascript": "await mirror.echo({v: 1});\nawait calculator.add({a: 1})",
    "python": "await mirror.echo(v=1)\nawait calculator.add({'a': 1})",
}


@pytest.mark.parametrize("language", WRONG_AFTER_A_GOOD_ONE)
async def test_a_call_that_was_refused_is_named_once_and_listed_as_not_sent(scripts: Scripts, language: str) -> None:
    async def checking(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        if name == "calculator.add":
            raise BadArguments("calculator.add: missing 'b'.")
        return structured(arguments)

    outcome = await scripts.run(WRONG_AFTER_A_GOOD_ONE[language], language, API, checking)
    told = outcome.explain()
    assert outcome.problem is not None
    assert outcome.problem.line == 2
    assert told.count("calculator.add: calculator.add:") == 0
    assert outcome.problem.message.endswith("calculator.add: missing 'b'.")
    assert told.endswith(
        "Calls already made (their effects remain):\n- mirror.echo: ok\n\n"
        "Calls refused before they were sent:\n- calculator.add: not sent (missing 'b'.)"
    )


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Denied("Not allowed."), "not_sent"),
        (RateLimited("Too often.", retry_after=1), "not_sent"),
        (Unavailable("calculator", "Not there."), "not_sent"),
        (Crashed("calculator", "It died."), "failed"),
    ],
)
async def test_only_what_was_never_sent_is_called_so(scripts: Scripts, error: WicketError, state: str) -> None:
    async def refusing(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        raise error

    outcome = await scripts.run("calculator.fail():await()", "lua", API, refusing)
    assert [(call.tool, call.state) for call in outcome.calls] == [("calculator.fail", state)]
    assert ("their effects remain" in outcome.explain()) is (state == "failed")
