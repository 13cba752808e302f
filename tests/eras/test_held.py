"""Calls that wait for a modern client's answer: what a client carries for us, and how such a call ends without it."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.eras.chair import SERVER
from tests.eras.house import upstream
from tests.eras.table import Link
from tests.eras.witness import witness
from tests.gateway.serving import META, TOKEN, Raw, raw_client, serve_http
from wicket_mcp.app import read_config
from wicket_mcp.model import META_CAPABILITIES, JsonObject
from wicket_mcp.sealing import ID_LENGTH

LINKS = [Link("modern", "legacy", "http", "stdio"), Link("modern", "modern", "http", "stdio")]
BOTH = pytest.mark.parametrize("link", LINKS, ids=lambda link: link.upstream)
NAME = {"action": "accept", "content": {"name": "Ada"}}
ABLE: JsonObject = {**META, META_CAPABILITIES: {"elicitation": {"form": {}, "url": {}}}}


@dataclass
class Asker:
    """A modern client that carries what it is given, or not quite."""

    raw: Raw

    async def call(self, name: str, arguments: JsonObject | None = None, *, token: str = TOKEN, **more: Any) -> Any:
        """The whole response to a call; `more` is added to its parameters."""
        params: JsonObject = {"name": name, "arguments": arguments or {}, "_meta": ABLE, **more}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        _, _, body = await self.raw.post(message, headers, token=token)
        return body

    async def asked(self, name: str, arguments: JsonObject | None = None) -> tuple[str, JsonObject]:
        """Begin a call that asks: the state to carry, and answers to its questions."""
        result = (await self.call(name, arguments))["result"]
        assert result["resultType"] == "input_required"
        return result["requestState"], dict.fromkeys(result["inputRequests"], NAME)


@asynccontextmanager
async def asking(open_gateway: OpenGateway, link: Link, **limits: Any) -> AsyncGenerator[tuple[Asker, Any]]:
    """A client of a gateway before the upstream of the matrix."""
    async with upstream(link) as server, open_gateway({SERVER: server}, unprefixed=True, limits=limits) as gateway:
        async with serve_http(gateway, "flat") as address, raw_client(address) as raw:
            yield Asker(raw), gateway


def refusal(body: JsonObject) -> str:
    assert body["error"]["code"] == -32602, body
    return body["error"]["message"]


@BOTH
async def test_the_state_that_comes_back_must_be_ours_for_this_very_request(
    open_gateway: OpenGateway, link: Link
) -> None:
    async with asking(open_gateway, link) as (client, gateway):
        other, _ = await gateway.registry.keys.create("somebody", ["invoke"])
        arguments = {"message": "Name?"}
        state, replies = await client.asked("ask_form", arguments)
        sealed = state[ID_LENGTH:]
        whole = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
        assert b"local" not in whole, "nobody reads whose it is"
        forged = state[:40] + ("A" if state[40] != "A" else "B") + state[41:]
        answered: JsonObject = {"inputResponses": replies}
        for wrong in (forged, state[:-1], f"{state}A", f"{state}=", "", "{}", 7, None, {"a": 1}):
            body = await client.call("ask_form", arguments, requestState=wrong, **answered)
            assert "does not belong to this request" in refusal(body)
        same: JsonObject = {"requestState": state, **answered}
        assert "does not belong to this request" in refusal(
            await client.call("ask_form", arguments, token=other, **same)
        )
        assert "does not belong to this request" in refusal(
            await client.call("ask_form", {"message": "Password?"}, **same)
        )
        assert "does not belong to this request" in refusal(await client.call("ask_rudely", **same))
        result = (await client.call("ask_form", arguments, **same))["result"]
        assert result["content"][0]["text"] == "accept: Ada", "the true one still works"


@BOTH
async def test_the_bridge_carries_an_answer_to_the_server_that_asked(open_gateway: OpenGateway, link: Link) -> None:
    async with upstream(link) as server, open_gateway({SERVER: server}, allow_runtime_servers=True) as gateway:
        [config] = read_config({"servers": {"installed": server}}).servers
        await gateway.registry.managed.register(config, gateway.principal)
        async with serve_http(gateway, "bridge") as address, raw_client(address) as raw:
            client, asked = Asker(raw), {"message": "Name?"}
            for tool, arguments in (
                ("invoke_tool", {"endpoint": SERVER, "tool_name": "ask_form", "arguments": asked}),
                ("installed_ask_form", asked),
            ):
                state, replies = await client.asked(tool, arguments)
                body = await client.call(tool, arguments, requestState=state, inputResponses=replies)
                assert body["result"]["resultType"] == "complete"
                assert body["result"]["content"][0]["text"] == "accept: Ada"


async def test_a_state_that_was_used_up_gets_the_same_answer_for_a_while_then_says_to_begin_again(
    open_gateway: OpenGateway,
) -> None:
    async with asking(open_gateway, LINKS[0]) as (client, gateway):
        state, replies = await client.asked("ask_form", {"message": "Name?"})
        same: JsonObject = {"requestState": state, "inputResponses": replies}
        answer = await client.call("ask_form", {"message": "Name?"}, **same)
        assert await client.call("ask_form", {"message": "Name?"}, **same) == answer
        await gateway.held.close()
        assert "begin again" in refusal(await client.call("ask_form", {"message": "Name?"}, **same))


async def test_an_answer_without_replies_is_asked_again(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway, LINKS[0]) as (client, _):
        state, replies = await client.asked("ask_twice")
        again = (await client.call("ask_twice", requestState=state))["result"]
        assert (again["resultType"], list(again["inputRequests"])) == ("input_required", list(replies))
        second = (await client.call("ask_twice", requestState=state, inputResponses=replies))["result"]
        [(key, question)] = second["inputRequests"].items()
        assert question["params"]["message"] == "Colour?"
        colour = {key: {"action": "accept", "content": {"colour": "blue"}}}
        state = second["requestState"]
        last = (await client.call("ask_twice", requestState=state, inputResponses=colour))["result"]
        assert last["content"][0]["text"] == "name=Ada colour=blue"


async def test_a_client_that_never_comes_back_has_its_call_ended(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway, LINKS[0], max_call=3) as (client, gateway):
        await gateway.tools()  # the limit is for the call, and not to be spent on starting the server
        async with witness() as seen:
            state, replies = await client.asked("ask_before_hanging", {"witness": seen.path})
            await seen.began()
            assert await seen.ended() == "cancelled"
        assert gateway.pool.calls == 0
        late: JsonObject = {"requestState": state, "inputResponses": replies}
        result = (await client.call("ask_before_hanging", {"witness": seen.path}, **late))["result"]
        assert result["isError"]
        assert "did not answer tools/call within 3 s" in result["content"][0]["text"]


async def test_a_gateway_that_closes_ends_the_calls_it_holds(open_gateway: OpenGateway) -> None:
    async with witness() as seen:
        async with asyncio.timeout(20), asking(open_gateway, LINKS[0]) as (client, _):
            await client.asked("ask_before_hanging", {"witness": seen.path})
            await seen.began()
        assert await seen.ended() == "cancelled"


async def test_a_server_without_questions_may_still_have_a_client_carry_its_state(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway, LINKS[1]) as (client, _):
        plain: JsonObject = {"_meta": META}
        first = (await client.call("come_back", **plain))["result"]
        assert (first["resultType"], first.get("inputRequests")) == ("input_required", None)
        last = (await client.call("come_back", requestState=first["requestState"], **plain))["result"]
        assert last["content"][0]["text"] == "welcome back"


async def test_what_is_told_while_the_client_answers_a_question_reaches_it_when_it_comes_back(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"x": peer("TellsWhileItAsks")}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat") as address, raw_client(address) as raw:
            client = Asker(raw)
            begun = await client.call("slow", _meta={**ABLE, "progressToken": "first"})
            assert begun["result"]["resultType"] == "input_required"
            await gateway.call("x.release")
            replies = {key: {"action": "decline"} for key in begun["result"]["inputRequests"]}
            back: JsonObject = {"requestState": begun["result"]["requestState"], "inputResponses": replies}
            *told, answer = await client.call("slow", _meta={**ABLE, "progressToken": "second"}, **back)
            assert answer["result"]["content"][0]["text"] == "the client says decline"
            progress = [one["params"] for one in told]
            assert progress == [{"progressToken": "second", "progress": step, "total": 3} for step in (1, 2, 3)]
