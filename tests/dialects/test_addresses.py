"""One running gateway, a vocabulary at each address."""

import pytest

from tests.conftest import OpenGateway, peer
from tests.dialects.talking import talking
from tests.gateway.serving import serve_http

MENUS = {
    "native": {"find_tools", "describe_tools", "call_tool", "run_script", "read_result"},
    "lua": {"list-servers", "list-server-tools", "tool-details", "inspect-tool-response", "execute"},
    "meta": {"TOOL_LIST", "TOOL_GET", "TOOL_CALL"},
    "broker": {"broker_search", "broker_invoke"},
}


async def test_each_address_shows_one_vocabulary(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway, serve_http(gateway) as address:
        for dialect, names in MENUS.items():
            async with talking(address, dialect=dialect) as agent:
                assert await agent.names() == names
                assert agent.client.instructions is not None
                assert next(iter(sorted(names))).split("-")[0].lower() in agent.client.instructions.lower()


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "return (await x.echo(message='hi'))"),
        ("lua", "return x.echo({message = 'hi'}):await()"),
        ("javascript", "return await x.echo({message: 'hi'})"),
    ],
)
async def test_the_native_vocabulary_runs_scripts_in_every_language(
    open_gateway: OpenGateway, language: str, code: str
) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with talking(address, dialect="native") as agent:
            assert await agent.text("run_script", code=code, language=language) == "hi"
            assert "failed" in await agent.problem("run_script", code="nowhere.to_be_seen(", language=language)
