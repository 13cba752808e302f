"""Cache, rate limit, fallback, aliases and retried listings, as a user sets them up."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.conftest import PEERS, OpenGateway, peer
from tests.dialects.seeds import Speaker, seed_server
from wicket_mcp.errors import RateLimited, UnknownName
from wicket_mcp.model import Silent
from wicket_mcp.request import tool_call


async def test_answers_are_given_again_where_the_configuration_says_so(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo", cache={"pid": "1h", "*": "1h"})}) as gateway:
        agent = Speaker(gateway, "native")
        first = await agent.call("call_tool", name="x.pid")
        again = await agent.call("call_tool", name="x.pid")
        assert [block["text"] for block in again["content"]] == [first["content"][0]["text"], "[cached]"]
        assert again["_meta"]["wicket/cached"]["mark"] == "[cached]"
        assert (await gateway.call("x.pid"))["content"] == first["content"], "the library gets the answer as it was"
        await agent.call("call_tool", name="x.echo", arguments={"message": "not annotated read-only"})
        echoed = await agent.call("call_tool", name="x.echo", arguments={"message": "not annotated read-only"})
        assert len(echoed["content"]) == 1
        calls = (await gateway.call("x.calls"))["structuredContent"]["calls"]
        assert calls == 4, "one pid, two echoes, and this one"


async def test_over_its_rate_a_server_is_not_asked(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo", calls_per_minute=2)}) as gateway:
        await gateway.call("x.pid")
        await gateway.call("x.pid")
        with pytest.raises(RateLimited, match="takes 2 calls a minute"):
            await gateway.call("x.pid")


async def test_wrong_arguments_cost_nothing_of_the_rate(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo", calls_per_minute=1)}) as gateway:
        agent = Speaker(gateway, "native")
        assert "missing 'message'" in await agent.problem("call_tool", name="x.echo", arguments={})
        assert await agent.text("call_tool", name="x.echo", arguments={"message": "hi"}) == "hi"


async def test_another_server_stands_in_for_one_that_could_not_be_asked(open_gateway: OpenGateway) -> None:
    servers = {
        "main": peer("Echo", calls_per_minute=1, fallback=["dead", "spare"]),
        "dead": {"command": "no-such-program-anywhere"},
        "spare": peer("Echo"),
    }
    async with open_gateway(servers) as gateway:
        agent = Speaker(gateway, "native")
        first = await agent.call("call_tool", name="main.pid")
        second = await agent.call("call_tool", name="main.pid")
        assert second["content"][0]["text"] != first["content"][0]["text"]
        assert second["_meta"]["wicket/fallback"] == {"asked": "main.pid", "answered": "spare.pid"}


@pytest.mark.parametrize("scopes", [("discover", "invoke"), ("invoke",)])
async def test_nothing_stands_in_that_the_caller_may_not_use(
    open_gateway: OpenGateway, scopes: tuple[str, ...]
) -> None:
    """W15, B2: a caller who makes a server overloaded gets no answer of one that its profile hides."""
    servers = {
        "main": peer("Echo", calls_per_minute=1, fallback=["hidden", "partly", "shown"]),
        "hidden": peer("Echo"),
        "partly": peer("Echo"),
        "shown": peer("Echo"),
    }
    tools = ["main.*", "partly.echo", "shown.*"]
    profiles = {
        "narrow": {"servers": ["main"], "keys": ["k1"]},
        "some": {
            "servers": ["main", "partly", "shown"],
            "tools": tools,
            "names": {"shown.pid": "number"},
            "keys": ["k2"],
        },
    }
    async with open_gateway(servers, profiles=profiles) as gateway:
        keys = gateway.registry.keys
        agents: list[Silent] = []
        for name in ("k1", "k2"):
            principal = await keys.principal((await keys.create(name, scopes))[0])
            assert principal is not None
            agents.append(Silent(gateway.place(principal)))
        await gateway.call("main.pid")
        with pytest.raises(RateLimited):
            await gateway.verbs.call(tool_call("main.pid", {}, agents[0]))
        answer = (await gateway.verbs.call(tool_call("main.pid", {}, agents[1]))).body
        assert answer["_meta"]["wicket/fallback"]["asked"] == "main.pid"
        assert answer["content"] == (await gateway.call("shown.pid"))["content"]
        assert (await gateway.store.recent_calls(agents[1].principal, 1))[0].tool == "pid"
        for server in ("hidden", "partly"):
            assert (await gateway.call(f"{server}.calls"))["structuredContent"]["calls"] == 1, "only this one"


async def test_a_call_that_was_sent_has_no_stand_in(open_gateway: OpenGateway) -> None:
    servers = {"main": peer("DiesMidCall", fallback=["spare"]), "spare": peer("Echo")}
    async with open_gateway(servers) as gateway:
        await gateway.tools()
        shown = await Speaker(gateway, "native").problem("call_tool", name="main.slow")
        assert "main" in shown
        calls = (await gateway.call("spare.calls"))["structuredContent"]["calls"]
        assert calls == 1, "only this one"


async def test_without_a_stand_in_the_first_problem_is_told(open_gateway: OpenGateway) -> None:
    servers = {"main": peer("Echo", calls_per_minute=1, fallback=["other"]), "other": seed_server("calculator")}
    async with open_gateway(servers) as gateway:
        await gateway.call("main.pid")
        with pytest.raises(RateLimited):
            await gateway.call("main.pid")


async def test_aliases_are_names_too_and_end_after_one_step(open_gateway: OpenGateway) -> None:
    aliases = {"say": "x.echo", "round": "trip", "trip": "round", "echo": "x.pid"}
    async with open_gateway({"x": peer("Echo")}, aliases=aliases) as gateway:
        assert (await gateway.call("say", {"message": "hi"}))["content"][0]["text"] == "hi"
        assert (await gateway.call("echo", {"message": "a tool's own name wins"}))["content"]
        with pytest.raises(UnknownName):
            await gateway.call("round")


async def test_a_listing_that_failed_is_tried_again_in_the_background(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    async with open_gateway({"x": {"command": str(program)}}) as gateway:
        listed = asyncio.Event()
        assert await gateway.tools() == ()
        assert "exited with code 1" in gateway.catalogue.failures["x"]
        gateway.catalogue.watch(lambda old, new: listed.set())
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {PEERS}/stdio_peer.py Echo\n")
        async with asyncio.timeout(60):
            await listed.wait()
        assert gateway.catalogue.failures == {}
        assert gateway.catalogue.now.by_server["x"]
