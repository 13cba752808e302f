"""A person's yes in the middle of a call, asked the way each protocol era asks, over HTTP."""

from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import META, raw_client, serve_http
from tests.trust.conftest import READ, SEND, Offer
from wicket_mcp.model import LOCAL, META_CAPABILITIES, JsonObject

ABLE: JsonObject = {**META, META_CAPABILITIES: {"elicitation": {}}}
POLICY = [{"action": "ask", "tool": "send"}]
SCRIPT = {"code": "return [await m.send(to='ann'), await m.read()]"}
CALLS = [
    ("call_tool", {"name": "m.send", "arguments": {"to": "ann"}}, "it ran"),
    ("run_script", SCRIPT, '["it ran","it ran"]'),
]


async def _post(raw: Any, name: str, arguments: JsonObject, **more: Any) -> JsonObject:
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": ABLE, **more}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    _, _, body = await raw.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)
    return body


@pytest.mark.parametrize(("name", "arguments", "answer"), CALLS, ids=["call", "script"])
async def test_a_modern_client_is_asked_and_its_call_goes_on(
    name: str, arguments: JsonObject, answer: str, offer: Offer, open_gateway: OpenGateway
) -> None:
    async with open_gateway({"m": offer(SEND, READ)}, policy=POLICY) as gateway:
        async with serve_http(gateway) as address, raw_client(address) as raw:
            asked = (await _post(raw, name, arguments))["result"]
            (question,) = asked["inputRequests"].values()
            assert "May local" in question["params"]["message"]
            reply = {"action": "accept", "content": {"decision": "approve"}}
            replies = dict.fromkeys(asked["inputRequests"], reply)
            state = asked["requestState"]
            other = {**arguments, "arguments": {"to": "eve"}} if name == "call_tool" else {"code": "return 1"}
            moved = await _post(raw, name, other, requestState=state, inputResponses=replies)
            assert "requestState does not belong to this request" in moved["error"]["message"], (
                "it is bound to the very request"
            )
            done = (await _post(raw, name, arguments, requestState=state, inputResponses=replies))["result"]
            assert done["content"][0]["text"].replace(" ", "") == answer.replace(" ", "")
            spent = await _post(raw, name, arguments, requestState=state, inputResponses=replies)
            assert spent["result"]["content"] == done["content"], "an answer that is sent again has the same result"
            forged = await _post(raw, name, arguments, inputResponses=replies)
            assert forged["result"]["resultType"] == "input_required", "answers to no question are no approval"


@pytest.mark.parametrize(("name", "arguments", "answer"), CALLS, ids=["call", "script"])
async def test_a_modern_clients_user_accepts_a_held_tool(
    name: str, arguments: JsonObject, answer: str, offer: Offer, open_gateway: OpenGateway
) -> None:
    async with open_gateway({"m": offer(SEND, READ)}) as gateway:
        await gateway.tools()
        offer({**SEND, "description": "Another."}, READ)
        await gateway.catalogue.renew("m")
        async with serve_http(gateway) as address, raw_client(address) as raw:
            asked = (await _post(raw, name, arguments))["result"]
            (question,) = asked["inputRequests"].values()
            assert "Accept tool m.send? It is held: its description changed" in question["params"]["message"]
            reply = {"action": "accept", "content": {"decision": "approve"}}
            replies = dict.fromkeys(asked["inputRequests"], reply)
            more = {"requestState": asked["requestState"], "inputResponses": replies}
            done = (await _post(raw, name, arguments, **more))["result"]
            assert done["content"][0]["text"].replace(" ", "") == answer.replace(" ", "")
        assert (await gateway.store.pins("m"))[-1].approved_by.startswith("local")


YES = {"action": "accept", "content": {"decision": "approve"}}


@pytest.mark.parametrize("stateless", ["", "1"], ids=["with a state", "without one"])
@pytest.mark.parametrize("way", ["elicitation", "wicket approve"])
async def test_a_server_that_asks_for_more_needs_no_second_approval(
    way: str, stateless: str, open_gateway: OpenGateway
) -> None:
    """The client repeats the call with its answers, twice: that is still the call that was approved, and only that."""
    policy = [{"action": "ask", "tool": "echo"}]
    server = peer("AsksTwice", env={"STATELESS": stateless})
    async with open_gateway({"m": server}, policy=policy) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as raw:
            call = {"name": "m.echo", "arguments": {"message": "hello"}}
            able: JsonObject = {META_CAPABILITIES: {"elicitation": {} if way == "elicitation" else {"url": {}}}}
            if way == "elicitation":
                asked = (await _post(raw, "call_tool", call))["result"]
                begun = (await _go_on(raw, call, asked, YES))["result"]
            else:
                refused = (await _post(raw, "call_tool", call, _meta={**META, **able}))["result"]
                (question,) = await gateway.store.approvals(0)
                assert f"approve {question.id} in Wicket. After that, make the same call again." in str(refused)
                await gateway.store.approve(question.id, "ann", 0)
                begun = (await _post(raw, "call_tool", call))["result"]
            assert begun["inputRequests"]["colour"]["params"]["message"] == "Which colour?"
            colour = {"action": "accept", "content": {"colour": "red"}}
            more = (await _go_on(raw, call, begun, colour))["result"]
            assert list(more["inputRequests"]) == ["size"], "the server's second question, not ours again"
            done = (await _go_on(raw, call, more, {"action": "accept"}, colour=colour))["result"]
            assert done["content"][0]["text"] == "hello"
            again = (await _go_on(raw, call, begun, colour))["result"]
            assert "May local" in str(again["inputRequests"]), "each step is spent once"
        rules = {record.rule for record in await gateway.store.recent_calls(LOCAL, 9) if record.outcome == "ok"}
        assert rules == {f"rule 1: ask, approved by {'local' if way == 'elicitation' else 'ann'}"}


async def _go_on(raw: Any, call: JsonObject, asked: JsonObject, reply: JsonObject, **earlier: JsonObject) -> JsonObject:
    """Repeat the call with a reply to what was asked."""
    replies = {**earlier, **dict.fromkeys(asked["inputRequests"], reply)}
    return await _post(raw, "call_tool", call, requestState=asked["requestState"], inputResponses=replies)
