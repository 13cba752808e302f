"""What a JavaScript or TypeScript script can do, and what its author is told when it fails."""

import pytest
from scripts_world import World, run

from wicket_mcp.scripts import Scripts


async def test_calls_run_together_and_give_data(scripts: Scripts) -> None:
    world = World(together=3)
    source = """
        const sums = await Promise.all([1, 2, 3].map((n) => calculator.add({a: n, b: n})));
        return sums.map((s) => s.sum);
    """
    outcome = await run(scripts, "javascript", source, world)
    assert outcome.value == [2, 4, 6]
    assert world.most_in_flight == 3


async def test_a_failing_tool_can_be_caught(scripts: Scripts) -> None:
    source = "try { await calculator.fail() } catch (problem) { return problem.message }"
    outcome = await run(scripts, "javascript", source)
    assert outcome.value == "calculator.fail: the calculator is out of order"


async def test_values_keep_their_shape(scripts: Scripts) -> None:
    world = World()
    source = """
        await mirror.echo({v: {none: null, gone: undefined, list: [], object: {}, date: new Date(0), f() {},
          set: new Set([1]), map: new Map([["k", 1]]), big: 12345678901234567890n, half: "a\\ud800b"}});
        return (await mirror.echo({v: 9007199254740993n})).v;
    """
    outcome = await run(scripts, "javascript", source, world)
    assert world.asked[0][2]["v"] == {
        "none": None,
        "list": [],
        "object": {},
        "date": "1970-01-01T00:00:00.000Z",
        "set": [1],
        "map": {"k": 1},
        "big": 12345678901234567890,
        "half": "a\ud800b",
    }
    assert outcome.value == "9007199254740993", "an integer that a number cannot hold is its digits"


async def test_a_tool_is_found_called_and_read_in_one_script(scripts: Scripts) -> None:
    source = """
        const [hit] = await tools.search("add numbers", {limit: 1});
        const {schema} = (await tools.describe(hit.name))[hit.name];
        const {sum} = await tools.call(hit.name, {a: schema.required.length, b: args.extra});
        return [sum, (await results.get("r1")).rows];
    """
    outcome = await run(scripts, "javascript", source, arguments={"extra": 40})
    assert outcome.value == [42, [1, 2, 3]]


async def test_the_console_is_captured(scripts: Scripts) -> None:
    source = 'console.log("a", {b: [1]}, null); console.error(new Error("e")); console.log(calculator.add({a:1,b:1}))'
    outcome = await run(scripts, "javascript", source)
    assert outcome.printed == 'a {"b":[1]} null\nError: e\n[pending call of calculator.add]\n'


async def test_interfaces_are_there_for_those_who_ask(scripts: Scripts) -> None:
    source = 'return [__backends, __getToolInterface("calculator.add"), __interfaces.includes("mirror.echo")]'
    outcome = await run(scripts, "javascript", source)
    backends, interface, has_mirror = outcome.value
    assert backends == ["calculator", "mirror", "data_server"]
    assert "calculator.add(args: { a: number; b: number }): Promise<any>" in interface
    assert has_mirror


async def test_random_numbers_differ_between_scripts(scripts: Scripts) -> None:
    first = await run(scripts, "javascript", "return Math.random()")
    second = await run(scripts, "javascript", "return Math.random()")
    assert first.value != second.value


async def test_every_failure_names_its_line_and_its_remedy(scripts: Scripts) -> None:
    failures = {
        "return [1n, -(9n ** 9999n)]": (None, "the result[1] is a whole number of more than 4300 digits", ""),
        "const r = calculator.add({a: 1, b: 2});\nreturn r.sum": (2, "before reading 'sum'", "awaited"),
        "return {p: calculator.add({a: 1, b: 2})}": (None, "the result.p is a pending call", "awaited"),
        "\ncalculatr.add({})": (2, "calculatr is not defined", "calculator"),
        "let a = 1;\nawait calculator.ad({})": (2, "no tool 'ad'", "calculator.add"),
        "let x = ;": (1, "SyntaxError", ""),
        "let a = 1;\nawait calculator.add({a: 'x'})": (2, "'a' must be an integer", "tools.describe"),
        "\n\nthrow new RangeError('far')": (3, "RangeError: far", ""),
        "return {n: {m: NaN}}": (None, "the result.n.m is NaN", ""),
        "await new Promise(() => {})": (None, "never come", "Await only"),
        "calculator.add(5)": (1, "one object of named arguments", ""),
    }
    for source, (line, message, hint) in failures.items():
        outcome = await run(scripts, "javascript", source)
        assert outcome.problem is not None, source
        assert outcome.problem.line == line, source
        assert message in outcome.problem.message, source
        assert hint in outcome.problem.hint, source


async def test_the_caret_points_at_the_column(scripts: Scripts) -> None:
    outcome = await run(scripts, "javascript", "let y = 1; nowhere(y)")
    assert outcome.problem is not None
    _, shown, caret, *_ = str(outcome.problem).split("\n")
    assert caret.index("^") == shown.index("nowhere")


TYPED = """\
interface Sum { sum: number; note?: string }
type Pair<T> = { a: T; b: T };
declare const unused: string;
class Box<T> { private readonly inner: T; constructor(inner: T) { this.inner = inner } get(): T { return this.inner! } }
const add = async <T extends number>(pair: Pair<T>, ..._rest: unknown[]): Promise<Sum> =>
  (await calculator.add(pair satisfies object)) as Sum;
function twice(this: void, n: number, factor?: number): number { return n * (factor ?? 2) }
const sums: Sum[] = [await add<number>({ a: 1, b: 2 }), await add({ a: 3, b: 4 })];
let last!: number;
for (const s of sums as Array<Sum>) last = twice(s.sum);
const b = [1, 2], few = 1 < b.length && b.length > (1);
return { last, boxed: new Box<string>("in").get(), few };
"""


async def test_typescript_runs_without_its_types(scripts: Scripts) -> None:
    outcome = await run(scripts, "typescript", TYPED)
    assert outcome.problem is None
    assert outcome.value == {"last": 14, "boxed": "in", "few": True}


async def test_typescript_keeps_lines_and_columns(scripts: Scripts) -> None:
    source = "interface A {\n  a: number\n}\nconst n: number = 1;\nconst s: string = missing as string;"
    outcome = await run(scripts, "ts", source)
    assert outcome.problem is not None
    assert (outcome.problem.line, outcome.problem.column) == (5, 19)


async def test_typescript_that_cannot_be_erased_is_refused_with_its_line(scripts: Scripts) -> None:
    for source, word in {
        "let a = 1;\nenum E { A = a }": "enum with computed values",
        "let a = 1;\nnamespace N { export const x = 1 }": "namespace",
    }.items():
        outcome = await run(scripts, "typescript", source)
        assert outcome.problem is not None
        assert (outcome.problem.kind, outcome.problem.line) == ("syntax", 2)
        assert word in outcome.problem.message


@pytest.mark.promise("V24", "A script that changes how lists work still gets the real answers of its tools.")
async def test_v24_a_poisoned_prototype_forges_no_answer(scripts: Scripts) -> None:
    source = """
        const walk = Array.prototype[Symbol.iterator];
        let poisoned = 0;
        Array.prototype[Symbol.iterator] = function () {
            poisoned++;
            return walk.call(this.length === 3 ? [this[0], true, {sum: 666}] : this);
        };
        const answer = calculator.add({a: 1, b: 2});
        const sum = (await answer).sum;
        Math.random();
        return [sum, poisoned];
    """
    outcome = await run(scripts, "javascript", source)
    assert outcome.value == [3, 0]
