"""The engine around the languages: processes, limits, queues, what a child can see, and how it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scripts_world import API, World, run

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.model import Tool
from wicket_mcp.scripts import Api, Scripts
from wicket_mcp.scripts.limits import MIB

FOREVER = {
    "lua": "while true do end",
    "javascript": "for (;;) {}",
    "python": "while True: pass",
}
ONE_CALL = {
    "lua": "return calculator.add({a = 1, b = 1}):await().sum",
    "javascript": "return (await calculator.add({a: 1, b: 1})).sum",
    "python": "(await calculator.add(a=1, b=1))['sum']",
}
FIFTY_CALLS = {
    "lua": "local c = {} for i = 1, 50 do c[i] = calculator.add({a = i, b = 0}) end return #await_all(c)",
    "javascript": "return (await Promise.all([...Array(50).keys()].map(i => calculator.add({a: i, b: 0})))).length",
    "python": "import asyncio\nlen(await asyncio.gather(*[calculator.add(a=i, b=0) for i in range(50)]))",
}


@pytest.mark.parametrize("language", FIFTY_CALLS)
async def test_fifty_calls_run_in_parallel_up_to_the_limit(scripts: Scripts, language: str) -> None:
    world = World(together=32)
    outcome = await run(scripts, language, FIFTY_CALLS[language], world)
    assert outcome.value == 50
    assert world.most_in_flight == 32


async def test_eight_endless_loops_do_not_keep_eight_good_scripts_from_ending() -> None:
    scripts = Scripts(Limits(cpu=0.3))
    bad = [run(scripts, language, FOREVER[language]) for language in [*FOREVER, *FOREVER, "lua", "lua"]]
    good = [run(scripts, language, ONE_CALL[language]) for language in [*ONE_CALL, *ONE_CALL, "lua", "lua"]]
    outcomes = await asyncio.gather(*bad, *good)
    await scripts.close()
    assert [o.state for o in outcomes[:8]] == ["limit"] * 8
    assert [o.problem.kind for o in outcomes[:8] if o.problem] == ["cpu"] * 8
    assert {o.problem.line for o in outcomes[:8] if o.problem} <= {1, None}, "none, where a core had no time to find it"
    assert [o.value for o in outcomes[8:]] == [2] * 8


@pytest.mark.parametrize("language", ONE_CALL)
async def test_a_script_that_waits_too_long_is_ended_and_says_what_it_waited_for(
    scripts: Scripts, language: str
) -> None:
    never = World(together=2)
    outcome = await run(scripts, language, ONE_CALL[language], never, Limits(wall=0.5))
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.kind) == ("limit", "wall")
    assert [str(call) for call in outcome.calls] == ["calculator.add: unfinished"]
    assert never.in_flight == 0, "the call was cancelled with the script"


async def test_a_cancelled_run_kills_its_process(scripts: Scripts) -> None:
    await run(scripts, "lua", "return 1")
    running = asyncio.gather(run(scripts, "lua", FOREVER["lua"], limits=Limits(cpu=30)))
    while scripts.status().running == 0:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    while scripts.status().running:
        await asyncio.sleep(0)
    assert (await run(scripts, "lua", "return 2")).value == 2


async def test_a_dead_zygote_is_replaced(scripts: Scripts) -> None:
    await run(scripts, "lua", "return 1")
    pid = scripts.zygote_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while scripts.zygote_pid == pid:
        await asyncio.sleep(0)
    assert (await run(scripts, "lua", "return 2")).value == 2
    assert scripts.zygote_pid != pid


async def test_the_zygote_knows_no_environment(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WICKET_TEST_TOKEN", "a-secret-of-the-gateway")
    await run(scripts, "lua", "return 1")
    environment = await asyncio.to_thread(Path(f"/proc/{scripts.zygote_pid}/environ").read_bytes)
    handles = await asyncio.to_thread(os.listdir, f"/proc/{scripts.zygote_pid}/fd")
    assert b"secret" not in environment
    assert len(handles) <= 8, "its stdio, its link, its wakeup pair, and nothing of the gateway's"


async def test_other_limits_end_the_processes_that_waited_with_the_old_ones(scripts: Scripts) -> None:
    for cpu in (1.0, 1.5, 2.5):
        scripts.use(Limits(cpu=cpu))
        for language in ("lua", "python"):
            assert (await run(scripts, language, ONE_CALL[language])).value == 2
        while scripts.status().warm < 3:
            await asyncio.sleep(0)
    while scripts.status().running:
        await asyncio.sleep(0)
    assert scripts.status().warm == 3, "two for the virtual machines, one for Python"
    scripts.use(Limits(cpu=3.0))
    assert scripts.status().warm == 0


async def test_no_script_sees_anothers_globals(scripts: Scripts) -> None:
    await run(scripts, "lua", "leak = 'mine'")
    assert (await run(scripts, "lua", "return tostring(leak)")).value == "nil"


async def test_two_thousand_tools_are_not_sent_to_a_script(scripts: Scripts) -> None:
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(20)}}
    tools = [Tool(f"server{n // 40}", f"tool_{n}", {"inputSchema": schema}) for n in range(2000)]
    api = Api.of([*tools, Tool("calculator", "add", {})])
    mentioned = api.find_mentions("return server7.tool_280({}):await()")
    assert [name for name, names in mentioned.items() if names] == ["server7"]
    for language, source in ONE_CALL.items():
        assert (await run(scripts, language, source, api=api)).value == 2
    outcome = await run(scripts, "lua", "return server7.tool_28({}):await()", api=api)
    assert outcome.problem is not None
    assert "server7.tool_28" in outcome.problem.hint


async def test_limits_on_size_are_named(scripts: Scripts) -> None:
    big = await run(scripts, "lua", "return ('x'):rep(3000000)")
    assert big.problem is not None
    assert (big.state, big.problem.kind) == ("limit", "output")
    long = await run(scripts, "lua", "-- " + "x" * 70_000)
    assert long.problem is not None
    assert (long.state, long.problem.kind) == ("limit", "source")
    many = await run(scripts, "lua", "for i = 1, 999 do calculator.add({a = i, b = i}) end")
    assert many.problem is not None
    assert (many.state, many.problem.kind) == ("limit", "calls")
    fat = await run(scripts, "lua", "return calculator.blob({n = 5000000}):await()")
    assert fat.problem is not None
    assert "too large" in fat.problem.message


async def test_a_large_value_comes_back_whole(scripts: Scripts) -> None:
    outcome = await run(scripts, "lua", "return ('x'):rep(100000)")
    assert len(outcome.value) == 100_000


async def test_memory_limits_hold(scripts: Scripts) -> None:
    hoards = {
        "lua": "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "javascript": "const t = []; for (;;) t.push(new Uint8Array(1000000).fill(1))",
        "python": "t = []\nwhile True:\n    t.append('x' * 1000000)",
    }
    for language, source in hoards.items():
        outcome = await run(scripts, language, source)
        assert outcome.problem is not None
        assert (outcome.state, outcome.problem.kind) == ("limit", "memory"), language
    assert scripts.peak_memory <= scripts.limits.memory + 64 * MIB


async def test_an_unknown_language_names_the_known_ones(scripts: Scripts) -> None:
    outcome = await run(scripts, "cobol", "STOP RUN.")
    assert outcome.problem is not None
    assert outcome.problem.kind == "language"
    assert "python" in outcome.problem.hint


async def test_status_tells_the_jail_and_the_languages(scripts: Scripts) -> None:
    status = scripts.status()
    assert status.languages == dict.fromkeys(("lua", "javascript", "typescript", "python"), True)
    assert "own process" in str(status)


def test_a_missing_engine_says_what_to_install(tmp_path: Path) -> None:
    import lupa
    import msgspec

    for package in (msgspec, lupa):
        assert package.__file__ is not None
        home = Path(package.__file__).parent
        (tmp_path / home.name).symlink_to(home)
        for info in home.parent.glob(f"{home.name}-*.dist-info"):
            (tmp_path / info.name).symlink_to(info)
    import wicket_mcp

    assert wicket_mcp.__file__ is not None
    (tmp_path / "wicket_mcp").symlink_to(Path(wicket_mcp.__file__).parent)
    said = subprocess.run(
        [sys.executable, "-S", "-E", "-c", MISSING], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert "lua done 1\n" in said
    assert "javascript error Install it: pip install 'wicket-mcp[js]'" in said
    assert "python error Install it: pip install 'wicket-mcp[python]'" in said


MISSING = textwrap.dedent("""
    import asyncio, os, sys
    sys.path.insert(0, os.getcwd())
    from wicket_mcp.scripts import Api, Scripts
    async def call(*args): return {}
    async def main():
        scripts = Scripts()
        for language, source in {"lua": "return 1", "javascript": "return 1", "python": "1"}.items():
            outcome = await scripts.run(source, language, Api(), call)
            print(language, outcome.state, outcome.problem.hint if outcome.problem else outcome.value)
        await scripts.close()
    asyncio.run(main())
""")


async def test_nothing_is_started_before_the_first_script() -> None:
    scripts = Scripts()
    assert scripts.zygote_pid is None
    assert API.servers
    await scripts.close()
