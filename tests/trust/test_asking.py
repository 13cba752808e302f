"""A person's yes in the middle of a call or a script, in every dialect, with the SDK's own client of each era."""

import pytest

from tests.conftest import OpenGateway
from tests.eras.chair import Chair, seated
from tests.eras.table import Era
from tests.gateway.serving import TOKEN, serve_http
from tests.trust.conftest import READ, SEND, Offer
from tests.trust.test_journeys import say
from wicket_mcp.model import LOCAL, JsonObject

TO: JsonObject = {"to": "ann"}
CALLS: dict[str, tuple[str, JsonObject]] = {
    "native": ("call_tool", {"name": "m.send", "arguments": TO}),
    "native, Python": ("run_script", {"code": "return await m.send(to='ann')"}),
    "native, JavaScript": ("run_script", {"code": "return await m.send({to: 'ann'})", "language": "javascript"}),
    "native, Lua": ("run_script", {"code": "return m.send({to='ann'}):await()", "language": "lua"}),
    "flat": ("m__send", TO),
    "lua": ("execute", {"script": "return m.send({to='ann'}):await()"}),
    "meta": ("TOOL_CALL", {"tool_name": "m.send", "arguments": TO}),
    "chain": ("call_tool_chain", {"code": "return m.send({to: 'ann'})"}),
    "broker": ("broker_invoke", {"server": "m", "tool": "send", "args": TO}),
}
"""A call of `m.send` in the words of each dialect that calls the tools of servers."""


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("why", ["held", "asked"])
async def test_a_person_is_asked_in_the_middle_of_a_call_in_every_dialect(
    why: str, era: Era, offer: Offer, open_gateway: OpenGateway
) -> None:
    policy = [{"action": "ask", "tool": "send"}] if why == "asked" else []
    async with open_gateway({"m": offer(SEND, READ)}, policy=policy) as gateway, serve_http(gateway) as address:
        for number, (way, (name, arguments)) in enumerate(CALLS.items()):
            await gateway.tools()
            if why == "held":
                offer({**SEND, "description": f"The {number}th description."}, READ)
                await gateway.catalogue.renew("m")
            dialect = way.partition(",")[0]
            async with seated(f"{address}/{dialect}", era, token=TOKEN) as chair:
                await _answer(chair, way, name, arguments)
        records = [each for each in await gateway.store.recent_calls(LOCAL, 99) if each.tool == "send"]
        assert {(each.outcome, each.rule) for each in records} == RULES[why], "every decision is in the audit"


RULES = {
    "held": {("denied", "changed: hold"), ("ok", "changed: hold, approved by local by mcp")},
    "asked": {("denied", "rule 1: ask, refused by the user"), ("ok", "rule 1: ask, approved by local")},
}


async def _answer(chair: Chair, way: str, name: str, arguments: JsonObject) -> None:
    """Refuse the call, then approve it: it is asked about each time, and made the second time only."""
    for decision, is_made in (("refuse", False), ("approve", True)):
        chair.answer = say(decision)
        result = await chair.client.call_tool(name, arguments)
        text = "".join(getattr(block, "text", "") for block in result.content)
        assert ("it ran" in text) == is_made, (way, text)
    assert len(chair.asked) == 2, way
