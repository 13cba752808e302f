"""The call path: one request each, nothing lost, every problem with a way out."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.conftest import OpenGateway, peer
from tests.peers.stdio_peer import RICH
from wicket_mcp.errors import AmbiguousName, BadArguments, Denied, Refused, UnknownName
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent
from wicket_mcp.request import tool_call


class Listener(Silent, frozen=True):
    """A caller that remembers what it is told."""

    heard: list[tuple[str, JsonObject]] = msgspec.field(default_factory=list[tuple[str, JsonObject]])

    def notify(self, method: str, params: JsonObject) -> None:
        self.heard.append((method, params))


def text_of(result: JsonObject) -> str:
    return result["content"][0]["text"]


async def test_a_result_passes_untouched_whatever_is_in_it(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        assert await gateway.call("echo.rich") == RICH


async def test_a_modern_upstream_is_called_in_its_own_era(open_gateway: OpenGateway) -> None:
    async with open_gateway({"m": peer("Modern")}) as gateway:
        assert text_of(await gateway.call("m.echo", {"message": "hi"})) == "hi"
        assert gateway.catalogue.now.listings["m"].protocol_version == "2026-07-28"


async def test_an_upstream_that_says_is_error_has_answered(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        result = await gateway.call("echo.fails")
    assert result == {"content": [{"type": "text", "text": "it went wrong"}], "isError": True}


async def test_an_upstreams_json_rpc_error_is_kept_whole(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with pytest.raises(Refused) as caught:
            await gateway.call("echo.refuses")
    assert caught.value.error == {"code": -32050, "message": "not today", "data": {"reason": "closed"}}


async def test_one_call_is_one_upstream_request(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        for _ in range(20):
            await gateway.call("echo.echo", {"message": "x"})
        counted = (await gateway.call("echo.calls"))["structuredContent"]
    assert (counted["calls"], counted["lists"]) == (21, 1)


async def test_wrong_arguments_never_reach_the_upstream(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with pytest.raises(BadArguments, match=r"'message' should be string.*echo\.echo\(message: string\)"):
            await gateway.call("echo.echo", {"message": 7})
        with pytest.raises(BadArguments, match="missing 'message'"):
            await gateway.call("echo.echo", {})
        assert (await gateway.call("echo.calls"))["structuredContent"]["calls"] == 1


async def test_arguments_given_as_a_json_string_are_parsed(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        result = await gateway.verbs.call(tool_call("echo.echo", '{"message": "as text"}', Silent()))
    assert text_of(result.body) == "as text"


async def test_a_bare_name_is_enough_while_one_server_has_it(open_gateway: OpenGateway) -> None:
    servers = {"a": peer("Echo"), "b": peer("OneBadTool")}
    async with open_gateway(servers) as gateway:
        with pytest.raises(AmbiguousName, match=r"'a\.echo' or 'b\.echo'"):
            await gateway.call("echo", {"message": "x"})
        assert (await gateway.catalogue.lookup.resolve("big")).key == "a.big"
        assert (await gateway.catalogue.lookup.resolve("A.ECHO")).key == "a.echo"


async def test_an_unknown_name_suggests_the_nearest(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with pytest.raises(UnknownName) as caught:
            await gateway.call("echo.releese")
    assert caught.value.near[0] == "echo.release"


async def test_denied_tools_are_neither_seen_nor_called(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo", denied_tools=["re*", "pid"])}) as gateway:
        names = [tool.name for tool in await gateway.tools("echo")]
        assert "echo" in names
        assert not {"release", "refuses", "pid"} & set(names)
        with pytest.raises(Denied, match="denied_tools"):
            await gateway.call("echo.pid")
        assert all(hit.tool.name != "pid" for hit in await gateway.search("pid", limit=50))


async def test_progress_reaches_the_caller_under_its_own_token(open_gateway: OpenGateway) -> None:
    caller = Listener()
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        await gateway.verbs.call(tool_call("echo.steps", {}, caller, {"progressToken": "mine"}))
    assert [params["progress"] for _, params in caller.heard] == [1, 2, 3]
    assert {params["progressToken"] for _, params in caller.heard} == {"mine"}


async def test_cancelling_a_call_tells_the_upstream(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        waiting = asyncio.ensure_future(gateway.call("echo.slow"))
        while not (await gateway.call("echo.calls"))["structuredContent"]["waiting"]:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        counted = (await gateway.call("echo.calls"))["structuredContent"]
    assert (counted["cancelled"], counted["waiting"]) == (1, 0)


@pytest.mark.promise("T5", "Answers of calls that run together never mix.")
async def test_t5_calls_of_one_upstream_run_at_the_same_time_and_never_mix(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        results = await asyncio.gather(*(gateway.call("echo.echo", {"message": str(n)}) for n in range(200)))
    assert [text_of(result) for result in results] == [str(n) for n in range(200)]


async def test_max_concurrent_bounds_what_an_upstream_gets_at_once(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo", max_concurrent=3)}) as gateway:
        await gateway.tools("echo")
        upstream: Any = gateway.pool
        slow = [asyncio.ensure_future(gateway.call("echo.slow")) for _ in range(5)]
        while upstream.calls < 3:
            await asyncio.sleep(0)
        assert upstream.calls == 3
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert text_of(await gateway.call("echo.echo", {"message": "free again"})) == "free again"


@pytest.mark.promise("T6", "Only its principal can use a stored result.")
async def test_t6_a_result_handle_works_for_its_principal_only(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}, results={"large": 100}) as gateway:
        body = (await gateway.verbs.call(tool_call("echo.big", {"rows": 500}, Silent()))).body
        handle = body["_meta"]["wicket/result"]["id"]
        part = await gateway.verbs.read(handle, LOCAL, path="items[499].name")
        assert part.text == "row 499"
        with pytest.raises(Exception, match="no stored result"):
            await gateway.verbs.read(handle, Principal("somebody else", LOCAL.scopes))


async def test_a_child_sees_a_small_environment_and_what_is_declared(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVATE_THING", "do not leak")
    monkeypatch.setenv("TOKEN_FOR_CHILD", "declared")
    async with open_gateway({"echo": peer("Echo", env={"GIVEN": "${TOKEN_FOR_CHILD}"})}) as gateway:
        seen = (await gateway.call("echo.calls"))["structuredContent"]["environment"]
    assert "GIVEN" in seen
    assert "PATH" in seen
    assert "PRIVATE_THING" not in seen
    assert "TOKEN_FOR_CHILD" not in seen
