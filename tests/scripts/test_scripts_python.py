"""What a Python script can do, and what its author is told before and while it runs."""

import pytest
from scripts_world import World, run

from wicket_mcp.scripts import Scripts


async def test_calls_run_together_and_give_data(scripts: Scripts) -> None:
    world = World(together=3)
    source = """
import asyncio
sums = await asyncio.gather(*[calculator.add(a=n, b=n) for n in range(3)])
[s["sum"] for s in sums]
"""
    outcome = await run(scripts, "python", source, world)
    assert outcome.value == [0, 2, 4]
    assert world.most_in_flight == 3


async def test_a_failing_tool_can_be_caught(scripts: Scripts) -> None:
    source = "try:\n    await calculator.fail()\nexcept Exception as problem:\n    print(problem)\nreturn 'went on'"
    outcome = await run(scripts, "python", source)
    assert (outcome.value, outcome.printed) == (
        "went on",
        "calculator.fail: the calculator is out of order\n",
    )


async def test_values_keep_their_shape(scripts: Scripts) -> None:
    world = World()
    source = """
from dataclasses import dataclass
from datetime import date
@dataclass
class Point:
    x: int
await mirror.echo({"v": {"none": None, "pair": (1, 2), "set": {1}, "day": date(2026, 1, 2), "point": Point(3)}})
(await mirror.echo(v=10 ** 30))["v"]
"""
    outcome = await run(scripts, "python", source, world)
    assert world.asked[0][2]["v"] == {
        "none": None,
        "pair": [1, 2],
        "set": [1],
        "day": "2026-01-02",
        "point": {"x": 3},
    }
    assert outcome.value == 10**30


async def test_a_whole_float_is_sent_as_the_integer_that_the_schema_wants(scripts: Scripts) -> None:
    world = World()
    await run(scripts, "python", "await calculator.add({'a': 4 / 2, 'b': 1})", world)
    assert str(world.asked[0][2]["a"]) == "2"


async def test_a_tool_is_found_called_and_read_in_one_script(scripts: Scripts) -> None:
    source = """
hit = (await tools.search("add numbers", limit=1))[0]
schema = (await tools.describe(hit["name"]))[hit["name"]]["schema"]
add = calculator.add
sums = [await tools.call(hit["name"], {"a": len(schema["required"]), "b": args["extra"]}), await add(a=1, b=1)]
[sums, (await results.get("r1"))["rows"]]
"""
    outcome = await run(scripts, "python", source, arguments={"extra": 40})
    assert outcome.value == [[{"sum": 42}, {"sum": 2}], [1, 2, 3]]


async def test_a_mistake_is_found_before_anything_is_called(scripts: Scripts) -> None:
    good = "await calculator.add(a=1, b=2)\n"
    mistakes = {
        "await calculator.add(a='x', b=1)": ("Expected `int`", ""),
        "await calculator.add(a=1)": ("required parameter `b`", ""),
        "await calculator.add(a=1, b=2, c=3)": ("`c`", ""),
        "await calculator.ad(a=1)": ("`ad`", "calculator.add"),
        "calculatr.add(a=1)": ("calculatr", "calculator"),
        "calculator.add(a=1, b=2)": ("not awaited", "`await server.tool"),
    }
    for mistake, (message, hint) in mistakes.items():
        world = World()
        outcome = await run(scripts, "python", good + mistake, world)
        assert outcome.problem is not None, mistake
        assert (outcome.problem.kind, outcome.problem.line) == ("type", 2), mistake
        assert message in outcome.problem.message, mistake
        assert hint in outcome.problem.hint, mistake
        assert world.asked == [], mistake


async def test_a_forgotten_await_is_found_before_anything_is_called(scripts: Scripts) -> None:
    uses = ["a['sum']", "a.sum", "for x in a: pass", "x, y = a", "a + 1", "1 < a", "'x' in a", "len(a)", "a['x'] = 1"]
    for use in [*uses, "sorted(a)", "int(a)", "{**a}", "a()", "calculator.add(a=1, b=2)['sum']"]:
        world = World()
        outcome = await run(scripts, "python", f"a = calculator.add(a=1, b=2)\n{use}", world)
        assert world.asked == [], use
        assert outcome.problem is not None, use
        assert (outcome.problem.kind, outcome.problem.line) == ("type", 2), use
        assert "call that is not awaited" in outcome.problem.message, use
        assert "Coroutine" not in outcome.problem.message, use
        assert "Write `await server.tool(…)`" in outcome.problem.hint, use


async def test_a_call_may_be_kept_passed_on_and_awaited_later(scripts: Scripts) -> None:
    source = """
import asyncio
from typing import Any
def later(call: list[int]) -> Any:
    return call
first = calculator.add(a=1, b=1)
calls = [first, later(calculator.add(a=2, b=2))]
calls.append(calculator.add(a=3, b=3))
print(len(calls), first is None, str(first) == "")
[found["sum"] for found in await asyncio.gather(*calls)]
"""
    outcome = await run(scripts, "python", source)
    assert (outcome.problem, outcome.value) == (None, [2, 4, 6])


async def test_what_is_found_is_said_in_the_authors_own_names_each_with_its_line(scripts: Scripts) -> None:
    source = "await calculator.add(a=1)\n\ncalculator.add(a=1, b=2)\nawait calculator.sub(a=1)"
    outcome = await run(scripts, "python", source)
    assert outcome.problem is not None
    assert outcome.problem.message.split("\n") == [
        "line 1: No argument provided for required parameter `b` of `calculator.add`",
        "line 3: A call is not awaited",
        "line 4: Object of type `calculator` has no attribute `sub`",
    ]


async def test_an_underscored_class_of_the_scripts_own_is_not_taken_for_a_server(scripts: Scripts) -> None:
    source = "class _Own:\n    pass\nown = _Own()\ntry:\n    own.x\nexcept AttributeError:\n    print('none')"
    outcome = await run(scripts, "python", source)
    assert (outcome.problem, outcome.printed) == (None, "none\n")


async def test_a_syntax_error_is_that_of_the_authors_own_text_and_nothing_more(scripts: Scripts) -> None:
    mistakes = {
        'print("hi"\nx = ': 1,
        "y = 1\nx = (": 2,
        "y = 1\nx = ": 2,
        "y = 1\nif y:\n\n": 2,
        "class A:\n  @\n": 2,
        'y = 1\ns = """abc\n\n': 2,
        "y = 1\ncalculatr.x(\n": 2,
        "y = 1\nbreak": 2,
        "y = 1\n  x = 2": 2,
    }
    for source, line in mistakes.items():
        outcome = await run(scripts, "python", source)
        assert outcome.problem is not None, source
        assert (outcome.problem.kind, outcome.problem.line) == ("syntax", line), source
        assert "return" not in outcome.problem.message, source
        assert "\n" not in outcome.problem.message, source
        assert outcome.problem.hint == "", source


async def test_a_name_of_ours_may_be_a_variable(scripts: Scripts) -> None:
    source = """
results = []
for args in [1, 2]:
    results.append((await calculator.add(a=args, b=1))["sum"])
def tools():
    return len(results)
[tools(), results]
"""
    outcome = await run(scripts, "python", source)
    assert outcome.problem is None
    assert outcome.value == [2, [2, 3]]


async def test_sleeping_goes_on_beside_calls_and_has_an_end(scripts: Scripts) -> None:
    source = """
import asyncio, time
async def later():
    await asyncio.sleep(0.01)
    return "later"
both = await asyncio.gather(later(), calculator.add(a=1, b=1), later())
time.sleep(0.01)
try:
    await asyncio.sleep(60)
except TimeoutError as problem:
    both.append(str(problem))
both
"""
    outcome = await run(scripts, "python", source)
    assert outcome.value == ["later", {"sum": 2}, "later", "a script may sleep 10 seconds in all"]


async def test_every_failure_names_its_line(scripts: Scripts) -> None:
    failures = {
        "def f():\n    return 1 // 0\nf()": ("runtime", 2, "ZeroDivisionError"),
        "x = 1\nawait calculator.fail()": ("tool", 2, "out of order"),
        "x = = 1": ("syntax", 1, "expression"),
        "return float('nan')": ("value", None, "the result is nan"),
        "return [1, 9**999999]": ("value", None, "the result[1] is a whole number of more than 4,300 digits"),
        "return {9**9999: 1}": ("value", None, "a key of the result is a whole number of more than 4,300 digits"),
        "await mirror.echo(v=-9**9999)": ("runtime", 1, "the arguments of mirror.echo.v is a whole number"),
        "print(1)\nraise ValueError('mine')": ("runtime", 2, "ValueError: mine"),
    }
    for source, (kind, line, message) in failures.items():
        outcome = await run(scripts, "python", source)
        assert outcome.problem is not None, source
        assert (outcome.problem.kind, outcome.problem.line) == (kind, line), source
        assert message in outcome.problem.message, source


async def test_printing_is_captured_and_cut(scripts: Scripts) -> None:
    outcome = await run(scripts, "python", "for i in range(3000):\n    print('0123456789')\n1")
    assert outcome.value == 1
    assert outcome.printed.endswith("cut: more was printed than is kept\n")
    assert len(outcome.printed) < scripts.limits.printed + 100


@pytest.mark.promise("V25", "A call of an unknown name is an error of the script, and ends nothing else.")
@pytest.mark.parametrize("source", ["eval('globals()')", "nobody()", "globals()['x']"])
async def test_v25_a_function_of_nobody_is_a_name_error(scripts: Scripts, source: str) -> None:
    outcome = await run(scripts, "python", source)
    assert outcome.state == "error", outcome
    assert outcome.problem is not None
    assert outcome.problem.kind in ("runtime", "type")
