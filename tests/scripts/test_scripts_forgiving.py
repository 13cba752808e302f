"""What agents write, as they write it: snippets that ought to run, replayed; and what is said where one cannot."""

import json
from pathlib import Path

import pytest
from scripts_world import API, TOOLS, World

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.model import Json, Tool
from wicket_mcp.scripts import Api, Scripts

SNIPPETS = Path(__file__).parent / "snippets"


def snippets(language: str) -> list[tuple[str, str, Json]]:
    """Name, source and expected value of each snippet of a language."""
    parts = (SNIPPETS / f"{language}.txt").read_text().split("### ")[1:]
    named = [part.partition("\n") for part in parts]
    cases = [(name, *text.rpartition("=== ")[::2]) for name, _, text in named]
    return [(name, source.rstrip("\n"), json.loads(value)) for name, source, value in cases]


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "lua"])
async def test_snippets_of_agents_run(scripts: Scripts, language: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[str] = []
    cases = snippets(language)
    for name, source, expected in cases:
        outcome = await scripts.run(source, language, API, World())
        if not outcome.ok or outcome.value != expected:
            wrong.append(f"{name}: {outcome.explain() or outcome.value!r}")
    with capsys.disabled():
        print(f"\n{language}: {len(cases) - len(wrong)} of {len(cases)} snippets run")  # noqa: T201
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('r = await mirror.echo(v=1)\nr["rows"]', "r has the keys v."),
        ("r = await mirror.echo(v=1)\nr.v", "A key is written r['v']."),
        ('r = {"a": {"b": "text"}}\nr["a"]["b"]["c"]', "r['a']['b'] is text: 'text'"),
        ('r = None\nr["a"]', "r is None."),
        ('r = [1, 2]\nr["a"]', "r is a list: [1, 2]"),
        ("import requests", "There is no module 'requests' in scripts. Scripts reach the network by tools only"),
        ("import yaml", "There is no module 'yaml' in scripts. Modules: asyncio, base64, "),
        ("import xml.etree.ElementTree as ET", "There is no module 'xml.etree.ElementTree' in scripts."),
        (
            "async def f():\n    mirror = await mirror.echo(v=1)\nawait f()",
            "A variable named 'mirror' hides the server",
        ),
        ("import io\nio.StringIO(await mirror.echo(v=1))", "StringIO takes text, not dict"),
        ("open('notes.txt').read()", "Scripts have no files of their own: call a tool that reads and writes files."),
        ("await calculator.add(1, 2, 3)", "calculator.add takes named arguments: calculator.add(a=…, b=…)"),
        ("class E(Exception):\n    pass", 'For an error of your own, raise ValueError("…").'),
        ("class A:\n    @staticmethod\n    def f():\n        return 1", "Write a function outside the class."),
        ("from contextlib import contextmanager", "The module 'contextlib' has no 'contextmanager' in scripts."),
        ("def n():\n    while True:\n        yield 1\nnext(n())", "this one does not end."),
        ("from zoneinfo import ZoneInfo", "a server for time knows the zones. Modules: asyncio, "),
    ],
)
async def test_what_cannot_run_says_what_is_there(scripts: Scripts, source: str, said: str) -> None:
    outcome = await scripts.run(source, "python", API, World())
    assert not outcome.ok
    assert said in outcome.explain()


async def test_the_line_of_a_failure_is_the_authors(scripts: Scripts) -> None:
    source = "def g():\n    yield 1\n    yield 2\n\ndef h():\n    yield 3\n\nx = [*g(), *h()]\nx[0] + 'a'"
    outcome = await scripts.run(source, "python", API, World())
    assert outcome.problem is not None
    assert (outcome.problem.line, outcome.problem.source_line) == (9, "x[0] + 'a'")


async def test_the_line_at_which_time_runs_out_is_the_authors(scripts: Scripts) -> None:
    source = "def g():\n    yield 1\n\nfor _ in g():\n    while True:\n        pass"
    outcome = await scripts.run(source, "python", API, World(), Limits(cpu=0.5))
    assert outcome.problem is not None
    assert outcome.problem.kind == "cpu"
    assert outcome.problem.line in (5, 6)


TIME = Api.of([*TOOLS, Tool("time", "get_current_time", {"inputSchema": {"type": "object"}})])


@pytest.mark.parametrize(
    ("language", "source", "hint"),
    [
        ("python", "import time\nawait time.get_current_time()", "`import time` hides the server of that name"),
        ("python", "json.dumps(1)", "Write `import json` first."),
        ("python", "tims.get_current_time()", "Did you mean time?"),
        ("javascript", "return process.env", "There is no process here"),
        ("javascript", "return new Intl.NumberFormat()", "There is no Intl here"),
        ("javascript", "module.exports = 1", "There are no modules here"),
        ("javascript", 'import fs from "fs"; fs.readFileSync("x")', "There are no modules here"),
        ("typescript", "import { x } from './x'\nx", "There are no modules here"),
        ("python", "await call_tool('mirror.echo', {'v': 1})", "For a name in a string: tools.call(name, arguments)."),
        ("javascript", "await find_tools({query: 'echo'})", "In a script this is tools.search(query)."),
        ("lua", "return read_result({id = 'x'})", "In a script this is results.get(id)."),
        ("python", "dir(mirror)", 'tools.search("…") finds tools'),
        ("python", "help(mirror)", 'tools.search("…") finds tools'),
        ("javascript", "result(5)", "The last expression is the script's value"),
        ("javascript", "const x: number = 1; return x", 'set language to "typescript"'),
        ("lua", "if 1 != 2 then return 1 end", "Lua writes `~=` for not equal."),
        ("lua", "local x = 1; x += 1", "Lua has no `+=`"),
        ("lua", "for i = 1, 2 do continue end", "Lua has no `continue`"),
        ("lua", "return io.open('x')", "Scripts have no files of their own"),
        ("lua", "return await mirror.echo({v = 1})", "Lua writes `:await()` behind a call."),
        ("python", "n = 'echo'\nawait mirror[n](v=1)", "mirror is a server: write mirror.TOOL(…)"),
    ],
)
async def test_hints_say_what_to_do(scripts: Scripts, language: str, source: str, hint: str) -> None:
    outcome = await scripts.run(source, language, TIME, World())
    assert not outcome.ok
    assert outcome.problem is not None
    assert hint in outcome.problem.hint


@pytest.mark.parametrize(
    ("language", "source", "name"),
    [
        ("python", "await mirror.to-list(v=[1])", "mirror.to_list"),
        ("python", "x = 1\nawait data-server.slow.lookup()", "data_server.slow_lookup"),
        ("python", "await data-server.slow_lookup()", "data_server"),
        ("javascript", "return await mirror.to-list({v: [1]})", "mirror.to_list"),
        ("javascript", "return data-server.slow_lookup()", "data_server"),
        ("lua", "return mirror.to-list({v = {1}}):await()", "mirror.to_list"),
        ("lua", "data-server.slow.lookup():await()", "data_server.slow_lookup"),
    ],
)
async def test_a_name_as_it_is_outside_of_scripts_is_told_how_to_be_written(
    scripts: Scripts, language: str, source: str, name: str
) -> None:
    outcome = await scripts.run(source, language, API, World())
    assert outcome.problem is not None
    assert outcome.problem.hint == f"In scripts, names are written with `_` for hyphens and the like: {name}"


async def test_a_name_in_a_string_is_as_it_is(scripts: Scripts) -> None:
    outcome = await scripts.run("x = 'data-server.slow.lookup'\nlen(mirror.ecko)", "python", API, World())
    assert outcome.problem is not None
    assert outcome.problem.hint == "Did you mean mirror.echo?"


async def test_a_name_that_resembles_nothing_gets_no_suggestion(scripts: Scripts) -> None:
    outcome = await scripts.run("return zzzzz", "javascript", TIME, World())
    assert outcome.problem is not None
    assert outcome.problem.hint == "The servers here are calculator, mirror, data_server, time."


async def test_arguments_are_blamed_only_where_the_error_is_about_them(scripts: Scripts) -> None:
    wrong = await scripts.run("await tools.call('calculator.add', {'a': 'x', 'b': 2})", "python", API, World())
    broken = await scripts.run("await calculator.fail()", "python", API, World())
    assert wrong.problem is not None
    assert broken.problem is not None
    assert "tools.describe" in wrong.problem.hint
    assert broken.problem.hint == "try/except lets the script go on."
