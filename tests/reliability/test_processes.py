"""Processes that die, hang and stay: noticed, restarted, and gone when the gateway is."""

import asyncio
import os
import shlex
import signal
from pathlib import Path

import pytest

from tests import needs
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import Command
from tests.gateway.test_faults import alive, echo, gone
from tests.reliability.callers import person
from tests.reliability.hostile import hostile
from wicket_mcp.errors import Crashed, ProtocolViolation, TimedOut
from wicket_mcp.request import tool_call
from wicket_mcp.upstream.control_group import ControlGroups
from wicket_mcp.upstream.stdio import INHERITED
from wicket_mcp.upstream.supervisor import HUNG_AFTER


def control_groups(pid: int) -> list[Path]:
    """Those of a gateway's process."""
    groups = ControlGroups.make()
    assert groups is not None
    groups.close()
    return list(groups.home.parent.glob(f"wicket-{pid}-*"))


def may_make_control_groups() -> bool:
    groups = ControlGroups.make()
    if groups is not None:
        groups.close()
    return groups is not None


HAS_CONTROL_GROUPS = may_make_control_groups()
needs_control_groups = pytest.mark.skipif(not HAS_CONTROL_GROUPS, reason=needs.CONTROL_GROUPS)


@pytest.mark.promise("F1", "A server's end is noticed at once, even if a process that it started holds its pipes open.")
@pytest.mark.promise("D8", "The end of a server is noticed although another process holds its pipes.")
async def test_f1_d8_a_dead_server_is_noticed_though_a_detached_process_holds_its_pipes(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": hostile("LeavesDaemon")}) as gateway:
        await gateway.tools()
        with pytest.raises(Crashed, match="killed by SIGKILL") as caught:
            await gateway.call("x.slow")
        daemon = int(caught.value.stderr[-1].split()[-1])
        if HAS_CONTROL_GROUPS:
            await gone(daemon)
        else:  # it is nobody's child, and stays
            os.kill(daemon, signal.SIGKILL)
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("F7", "After three calls without an answer it is pinged, and restarted if it does not answer.")
@pytest.mark.promise("D12", "A server that answers neither calls nor a ping is restarted.")
async def test_f7_d12_a_server_that_hangs_is_restarted(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo", timeout=0.3), "healthy": peer("Echo")}) as gateway:
        hung = int((await gateway.call("x.pid"))["content"][0]["text"])
        os.kill(hung, signal.SIGSTOP)
        for _ in range(HUNG_AFTER):
            with pytest.raises(TimedOut):
                await gateway.call("x.pid")
        assert await echo(gateway, "healthy") == "still here"
        await gone(hung)
        assert int((await gateway.call("x.pid"))["content"][0]["text"]) != hung


async def test_a_server_whose_calls_take_too_long_but_that_answers_a_ping_is_left_alone(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": peer("Echo", timeout=0.2)}) as gateway:
        before = (await gateway.call("x.pid"))["content"]
        for _ in range(HUNG_AFTER):
            with pytest.raises(TimedOut):
                await gateway.call("x.slow")
        upstream_answers = await gateway.call("x.calls")
        assert upstream_answers["structuredContent"]["cancelled"] == HUNG_AFTER
        assert (await gateway.call("x.pid"))["content"] == before


@pytest.mark.promise("F4", "A call whose answer cannot be read fails at once.")
@pytest.mark.promise("V21", "An answer of any depth gives a result or one typed error, at once.")
@pytest.mark.parametrize("answer", ["nan", "deep", "last"])
@pytest.mark.promise("D10", "An answer that cannot be read fails its call at once.")
async def test_f4_v21_d10_an_answer_that_cannot_be_read_fails_its_call(open_gateway: OpenGateway, answer: str) -> None:
    async with open_gateway({"x": hostile("Unreadable", env={"ANSWER": answer})}) as gateway:
        with pytest.raises(ProtocolViolation, match="cannot be read"):
            await gateway.call("x.slow")
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("F25", "If the gateway is killed, its servers and everything they started end too.")
@pytest.mark.promise("V19", "A server that ignores the end of its input dies with a killed gateway.")
@pytest.mark.promise("D13", "No server outlives a killed gateway.")
async def test_f25_v19_d13_a_killed_gateway_leaves_nobody_behind(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"x": hostile("StubbornFamily"), "plain": peer("HasChild")})
    await command.initialize()
    pids = [
        int(word)
        for server in ("x", "plain")
        for word in (await command.call("call_tool", {"name": f"{server}.pid"}))["content"][0]["text"].split()
    ]
    assert len(pids) == 3
    assert all(map(alive, pids))
    command.process.kill()
    await command.process.communicate()
    await asyncio.gather(*map(gone, pids))


@needs_control_groups
@pytest.mark.promise("F25", "With control groups, a process that left its process group ends with its server too.")
async def test_f25_a_detached_process_ends_with_its_server(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("DetachedFamily")}) as gateway:
        server, detached = map(int, (await gateway.call("x.pid"))["content"][0]["text"].split())
        assert alive(detached)
        assert control_groups(os.getpid())
        assert os.getsid(detached) != os.getsid(server), "no signal to its group reaches it"
    await gone(detached)
    assert not control_groups(os.getpid()), "nothing is left in the kernel's tree"


@needs_control_groups
async def test_f25_a_server_is_in_its_control_group_before_it_does_anything(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """What it starts first, and detaches, cannot be outside either; and it finds only the variables it is given."""
    echoes = peer("Echo")
    first = f"cat /proc/self/cgroup > {tmp_path}/group; tr '\\0' '\\n' < /proc/$$/environ > {tmp_path}/variables"
    script = f"{first}; exec {shlex.join([echoes['command'], *echoes['args']])}"
    async with open_gateway({"x": {"command": "sh", "args": ["-c", script], "env": {"GIVEN": "yes"}}}) as gateway:
        assert await echo(gateway, "x") == "still here"
        assert f"/wicket-{os.getpid()}-" in (tmp_path / "group").read_text()
        names = {line.partition("=")[0] for line in (tmp_path / "variables").read_text().splitlines()}
        assert "GIVEN" in names
        assert names <= {"GIVEN", *INHERITED}


@needs_control_groups
@pytest.mark.promise("F25", "With control groups, a killed gateway leaves no detached process behind.")
async def test_f25_a_killed_gateway_leaves_no_detached_process(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"x": hostile("DetachedFamily")})
    await command.initialize()
    pids = [int(word) for word in (await command.call("call_tool", {"name": "x.pid"}))["content"][0]["text"].split()]
    assert all(map(alive, pids))
    command.process.kill()
    await command.process.communicate()
    await asyncio.gather(*map(gone, pids))
    while control_groups(command.process.pid):  # its keeper takes them down
        await asyncio.sleep(0)


@pytest.mark.promise("F9", "Progress extends a call up to an absolute limit; then the server gets a cancellation.")
async def test_f9_progress_without_end_ends_at_the_limit(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("FloodsProgress")}, limits={"max_call": 1.0}) as gateway:
        await gateway.tools()
        with pytest.raises(TimedOut, match="within 1 s"):
            await gateway.verbs.call(tool_call("x.slow", {}, person("somebody"), meta={"progressToken": "p"}))
        assert await echo(gateway, "x") == "still here"
