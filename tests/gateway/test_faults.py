"""What happens when an upstream goes wrong: a named fault each, nothing hangs, nothing is lost silently."""

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from tests.peers.counting_servers import GoesDark
from wicket_mcp.app import Gateway
from wicket_mcp.errors import Crashed, ProtocolViolation, TimedOut, Unavailable, WicketError
from wicket_mcp.upstream.lifecycle import BREAKER_FAILURES, State
from wicket_mcp.upstream.supervisor import HUNG_AFTER


async def echo(gateway: Gateway, server: str, message: str = "still here") -> str:
    return (await gateway.call(f"{server}.echo", {"message": message}))["content"][0]["text"]


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet collected by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pid: int) -> None:
    """Wait until a process is gone; the test's own time limit is the deadline."""
    while alive(pid):
        await asyncio.sleep(0)


@pytest.mark.promise("F1", "The call fails with the server's last output; the next call starts it again.")
async def test_f1_killed_mid_call_the_call_fails_with_its_last_words_and_the_next_one_works(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": peer("DiesMidCall"), "healthy": peer("Echo")}) as gateway:
        await gateway.tools()
        with pytest.raises(Crashed, match="killed by SIGKILL") as caught:
            await gateway.call("x.slow")
        assert "about to die of natural causes" in str(caught.value)
        assert "may have had effects" in str(caught.value)
        assert await echo(gateway, "x") == "still here"
        assert await echo(gateway, "healthy") == "still here"


@pytest.mark.promise("T30", "A call that was sent is never sent again, no matter what happens to the server.")
async def test_t30_every_call_in_flight_of_a_killed_upstream_fails_and_none_is_repeated(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        pid = int((await gateway.call("x.pid"))["content"][0]["text"])
        calls = [asyncio.ensure_future(gateway.call("x.slow")) for _ in range(10)]
        while (await gateway.call("x.calls"))["structuredContent"]["waiting"] < 10:
            pass
        os.kill(pid, 9)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, Crashed) for outcome in outcomes)
        counted = (await gateway.call("x.calls"))["structuredContent"]
        assert counted["calls"] == 1


@pytest.mark.promise("F8", "A call ends at its deadline, and the server gets a cancellation.")
async def test_f8_one_that_never_answers_a_call_times_out_and_is_told(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo", timeout=0.3)}) as gateway:
        with pytest.raises(TimedOut, match="within 0.3 s"):
            await gateway.call("x.slow")
        assert (await gateway.call("x.calls"))["structuredContent"]["cancelled"] == 1


@pytest.mark.promise("F8", "A server on the network that answers nothing any more is named, and connected to again.")
async def test_f8_a_server_on_the_network_that_hangs_is_connected_to_again(open_gateway: OpenGateway) -> None:
    async with GoesDark() as server, open_gateway({"x": {"url": server.url, "timeout": 0.3}}) as gateway:
        assert await echo(gateway, "x") == "still here"
        server.dark = True
        for _ in range(HUNG_AFTER):
            with pytest.raises(TimedOut):
                await echo(gateway, "x")
        while "hung" not in gateway.pool.state("x")[1]:  # it is pinged first
            await asyncio.sleep(0)
        server.dark = False
        assert await echo(gateway, "x") == "still here"
        assert server.sessions == {"session-1", "session-2"}


@pytest.mark.promise("F2", "It fails at its own deadline; the other servers can be used before that.")
async def test_f2_one_that_never_answers_at_all_fails_to_connect_and_hurts_nobody(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("NeverAnswers", connect_timeout=0.5), "healthy": peer("Echo")}) as gateway:
        hits = await gateway.search("echo the message")
        assert [hit.tool.server for hit in hits if hit.tool.name == "echo"] == ["healthy"]
        assert "did not answer within 0.5 s" in gateway.catalogue.failures["x"]
        with pytest.raises(Unavailable, match="connect_timeout"):
            await gateway.pool.request("x", "tools/call", {"name": "echo"})


@pytest.mark.promise("F3", "Its last output is shown; after three failures Wicket waits longer before each new start.")
async def test_f3_one_that_exits_at_once_shows_its_complaint_and_is_left_alone_after_three_failures(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKY", "hunter2-secret")
    async with open_gateway({"x": peer("ExitsAtOnce", env={"TOKEN": "${LEAKY}"})}) as gateway:
        for _ in range(BREAKER_FAILURES):
            with pytest.raises(Unavailable, match="exited with code 3") as caught:
                await gateway.pool.start("x")
            assert "cannot find my config" in str(caught.value)
            assert "hunter2" not in str(caught.value)
        state, problem = gateway.pool.state("x")
        assert state is State.BROKEN
        assert "exited with code 3" in problem


async def test_a_command_that_does_not_exist_is_named(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": {"command": "no-such-command-anywhere"}}) as gateway:
        with pytest.raises(Unavailable, match=r"'no-such-command-anywhere' was not found\. Install it"):
            await gateway.pool.start("x")


@pytest.mark.promise("F4", "Lines that are not messages are skipped.")
async def test_f4_garbage_on_stdout_is_skipped(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("WritesGarbage")}) as gateway:
        assert [await echo(gateway, "x", str(n)) for n in range(5)] == ["0", "1", "2", "3", "4"]


async def test_bad_characters_cost_themselves_only(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("BadCharacters")}) as gateway:
        assert await echo(gateway, "x") == "caf\ufffd \ud83d"


async def test_answers_that_fit_nothing_are_dropped(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("AnswersWildly")}) as gateway:
        assert [await echo(gateway, "x", str(n)) for n in range(3)] == ["0", "1", "2"]


@pytest.mark.parametrize("fault", ["EndlessLine", "FloodsStdout", "ClosesStdin"])
@pytest.mark.promise("F5", "After an endless line or flood the call fails, and the server is started again.")
async def test_f5_what_cannot_be_trusted_is_closed_and_started_anew(open_gateway: OpenGateway, fault: str) -> None:
    limits = {"max_message": 2**20}
    async with open_gateway({"x": peer(fault), "healthy": peer("Echo")}, limits=limits) as gateway:
        await gateway.tools()
        with pytest.raises(ProtocolViolation, match="Server 'x'"):
            await gateway.call("x.slow")
        assert await echo(gateway, "healthy") == "still here"
        assert await echo(gateway, "x") == "still here"


@pytest.mark.parametrize("message", ["id first", "id last", "garbage"])
@pytest.mark.promise("F5", "An answer over the limit fails its own call; the others on its connection are answered.")
@pytest.mark.promise("D18", "An answer over the limit, or much garbage, fails no other call on the connection.")
async def test_f5_d18_an_answer_that_is_too_large_costs_its_own_call(open_gateway: OpenGateway, message: str) -> None:
    async with open_gateway({"x": peer("AnswersTooMuch")}, limits={"max_message": 2**20}) as gateway:
        pid = await gateway.call("x.pid")
        others = [asyncio.ensure_future(gateway.call("x.slow")) for _ in range(10)]
        while (await gateway.call("x.calls"))["structuredContent"]["waiting"] < 10:
            pass
        if message == "garbage":
            assert await echo(gateway, "x", message) == message
        else:
            with pytest.raises(ProtocolViolation, match="larger than 1 MiB"):
                await echo(gateway, "x", message)
        assert [answer["content"][0]["text"] for answer in await asyncio.gather(*others)] == ["released"] * 10
        assert await gateway.call("x.pid") == pid


@pytest.mark.promise("F6", "Much output on stderr does not disturb calls.")
async def test_f6_a_flood_on_stderr_disturbs_nothing(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("FloodsStderr")}) as gateway:
        assert [await echo(gateway, "x", str(n)) for n in range(50)] == [str(n) for n in range(50)]


async def test_a_slow_starter_is_waited_for_once_by_all(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("SlowStart", env={"SLOW_START": "0.3"})}) as gateway:
        pids = await asyncio.gather(*(gateway.call("x.pid") for _ in range(10)))
    assert len({pid["content"][0]["text"] for pid in pids}) == 1


async def test_closing_leaves_no_process_behind(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("HasChild"), "stubborn": peer("IgnoresTerm")}) as gateway:
        grandchild = int((await gateway.call("x.pid"))["content"][0]["text"])
        stubborn = int((await gateway.call("stubborn.pid"))["content"][0]["text"])
        assert alive(grandchild)
        assert alive(stubborn)
    await gone(grandchild)
    await gone(stubborn)


async def test_idle_upstreams_stop_and_start_again_but_never_during_a_call(open_gateway: OpenGateway) -> None:
    servers = {"x": peer("Echo", idle_stop=0.2), "beside": peer("Echo", idle_stop=0.2)}
    async with open_gateway(servers) as gateway:
        first = int((await gateway.call("x.pid"))["content"][0]["text"])
        waiting = asyncio.ensure_future(gateway.call("x.slow"))
        while gateway.pool.calls == 0:
            await asyncio.sleep(0)
        for _ in range(2):  # as long as it takes to stop twice
            await gone(int((await gateway.call("beside.pid"))["content"][0]["text"]))
        assert alive(first)
        await gateway.call("x.release")
        assert (await waiting)["content"][0]["text"] == "released"
        await gone(first)
        assert int((await gateway.call("x.pid"))["content"][0]["text"]) != first


async def test_a_request_from_an_upstream_is_declined_not_ignored(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Asks")}) as gateway:
        assert "-32601" in await echo(gateway, "x")


async def test_a_tool_of_a_server_that_cannot_start_is_no_unknown_name(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("ExitsAtOnce")}) as gateway:
        with pytest.raises(Unavailable, match=r"'x\.echo' is not known: Server 'x' exited with code 3") as refused:
            await gateway.call("x.echo", {"message": "hi"})
        assert "cannot find my config" in str(refused.value), "its last words"
        [status] = await gateway.servers()
        assert "It said: cannot find my config" in status.problem


async def test_a_program_that_echoes_is_called_no_server(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": {"command": "cat"}}) as gateway:
        assert "sends back what it is sent" in (await gateway.servers())[0].problem


async def test_a_call_that_was_sent_to_a_server_that_is_stopped_may_not_be_repeated(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway, asyncio.TaskGroup() as group:
        slow = group.create_task(_problem_of(gateway.call("x.slow")))
        while (await gateway.call("x.calls"))["structuredContent"]["waiting"] == 0:
            pass
        await gateway.pool.remove("x")
        problem = await slow
        assert isinstance(problem, Crashed)
        assert not problem.retryable


async def _problem_of(call: Awaitable[object]) -> WicketError:
    with pytest.raises(WicketError) as raised:
        await call
    return raised.value
