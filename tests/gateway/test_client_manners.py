"""What a client is told when it connects, by the size of the catalogue, and what some read beside the protocol."""

from tests.conftest import OpenGateway, peer, replay
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_extensions import ask
from wicket_mcp.dialects.vendor_keys import KEYS


async def test_a_small_catalogue_stands_in_the_instructions_and_needs_no_search(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        assert "x.echo(" not in await gateway.instructions()  # nothing is known of it yet
        await gateway.tools()
        told = await gateway.instructions()
        assert told.startswith("All 10 tools; untyped parameters are strings. call_tool calls one")
        assert "\nx.echo(message)\n" in told
        flat = await gateway.instructions("flat")
        assert "x.echo(" not in flat


async def test_a_large_one_does_not(open_gateway: OpenGateway) -> None:
    async with open_gateway({"linear": {**replay("linear"), "connect_timeout": 60}}) as gateway:
        assert len(await gateway.tools()) > 150
        told = await gateway.instructions()
        assert "find_tools finds them" in told
        assert len(told) < 2000


async def test_our_own_tools_are_marked_for_clients_that_read_it_unless_switched_off(open_gateway: OpenGateway) -> None:
    for switched in (True, False):
        async with (
            open_gateway({"x": peer("Echo")}, vendor_keys=switched) as gateway,
            serve_http(gateway) as address,
            raw_client(address) as client,
        ):
            tools = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}))["tools"]}
            assert set(tools) == set(KEYS)
            marked = {name for name, tool in tools.items() if tool.get("_meta", {}).get("anthropic/alwaysLoad")}
            assert marked == (set(KEYS) if switched else set())
