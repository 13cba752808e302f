"""What the audit says of calls that were answered, and of those that never reached a server."""

from contextlib import suppress
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.store.model import AuditQuery


async def outcomes(gateway: Any, principal: Principal = LOCAL) -> list[tuple[str, str, str]]:
    records = await gateway.store.find_calls(AuditQuery(principal=principal.name))
    return [(r.server, r.tool, r.outcome) for r in records]


@pytest.mark.promise("V22", "A refused call leaves a record, like a call that was answered.")
async def test_v22_b16_a_call_that_was_turned_down_is_recorded_like_one_that_was_answered(
    open_gateway: OpenGateway,
) -> None:
    async with open_gateway({"echo": peer("Echo", denied_tools=["pid"])}) as gateway:
        await gateway.call("echo.echo", {"message": "x"})
        for name in ("echo.echo", "echo.nothing", "echo.pid"):
            with pytest.raises(WicketError):
                await gateway.call(name)
        assert await outcomes(gateway) == [
            ("", "echo.pid", "denied"),
            ("", "echo.nothing", "unknown_name"),
            ("echo", "echo", "bad_arguments"),
            ("echo", "echo", "ok"),
        ]


async def test_b16_a_principal_without_the_scope_is_recorded_and_told_once(open_gateway: OpenGateway) -> None:
    nobody = Principal("nobody", frozenset({"discover"}))
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with pytest.raises(WicketError, match="scope 'invoke'"):
            await gateway.verbs.call(tool_call("echo.echo", {"message": "x"}, Silent(nobody)))
        assert await outcomes(gateway, nobody) == [("", "echo.echo", "denied")]


@pytest.mark.promise("V22", "Reading resources and getting prompts leaves a record.")
async def test_v22_resources_and_prompts_are_recorded_too(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        with suppress(WicketError):
            await gateway.verbs.read_resource("mcp://echo/memo://none", Silent())
        with pytest.raises(WicketError):
            await gateway.verbs.get_prompt("echo/none", {}, Silent())
        seen = await outcomes(gateway)
        assert [(server, tool) for server, tool, _ in seen] == [("", "echo/none"), ("echo", "memo://none")]
