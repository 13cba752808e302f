"""Seed 001, "Progressive Discovery" with three meta-tools: every example call and error of its document."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import OpenGateway, peer, published
from tests.dialects.seeds import TRANSPORTS, Speaker, gateway_over, seed_server, speaking
from wicket_mcp.codec import decode

QUOTE = {"01. symbol": "AAPL", "05. price": "261.05", "datatype": "json"}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_seed_001_three_round_trips_in_action(transport: str, tmp_path: Path, open_gateway: OpenGateway) -> None:
    async with speaking("meta", transport, {"quotes": seed_server("quotes")}, tmp_path, open_gateway) as agent:
        assert await agent.names() == {"TOOL_LIST", "TOOL_GET", "TOOL_CALL"}
        listed = await agent.value("TOOL_LIST")
        assert listed == [
            {"name": "TIME_SERIES_INTRADAY", "description": "Get intraday time series data"},
            {
                "name": "GLOBAL_QUOTE",
                "description": "Returns the latest price and volume information for a ticker",
            },
            {"name": "TIME_SERIES_DAILY", "description": "Get daily time series data"},
        ]
        got = await agent.value("TOOL_GET", tool_name="GLOBAL_QUOTE")
        assert list(got) == ["name", "description", "parameters"]
        assert got["description"] == "Returns the latest price and volume information for a ticker."
        assert got["parameters"]["required"] == ["symbol"]
        assert got["parameters"]["properties"]["symbol"]["description"] == "The symbol of the global ticker"
        answer = await agent.call(
            "TOOL_CALL", tool_name="GLOBAL_QUOTE", arguments={"symbol": "AAPL", "datatype": "json"}
        )
        assert decode(answer.content[0].text) == {"Global Quote": QUOTE}
        assert answer.structured_content == {"result": {"Global Quote": QUOTE}}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_published_server_speaks_meta(transport: str, tmp_path: Path, open_gateway: OpenGateway) -> None:
    async with speaking("meta", transport, {"time": published("mcp-server-time")}, tmp_path, open_gateway) as agent:
        names = [tool["name"] for tool in await agent.value("TOOL_LIST")]
        assert names == ["get_current_time", "convert_time"]
        now = await agent.call("TOOL_CALL", tool_name="GET_CURRENT_TIME", arguments={"timezone": "Asia/Tokyo"})
        assert now.structured_content["result"]["timezone"] == "Asia/Tokyo"


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Speaker]:
    servers = {"quotes": seed_server("quotes"), "one": peer("Echo"), "two": peer("Echo")}
    async with gateway_over(servers, tmp_path_factory.mktemp("state")) as gateway:
        yield Speaker(gateway, "meta")


@pytest.mark.asyncio(loop_scope="class")
class TestInProcess:
    async def test_seed_001_tool_get_takes_a_list_and_answers_in_its_order(self, agent: Speaker) -> None:
        await agent.call("TOOL_LIST")
        names = ["time_series_daily", "global_quote"]
        result = await agent.call("TOOL_GET", tool_name=names)
        found = decode(result["content"][0]["text"])
        assert [tool["name"] for tool in found] == ["TIME_SERIES_DAILY", "GLOBAL_QUOTE"]
        assert result["structuredContent"] == {"tools": found}

    async def test_names_are_prefixed_only_where_servers_share_one(self, agent: Speaker) -> None:
        names = [tool["name"] for tool in decode(await agent.text("TOOL_LIST"))]
        assert names[:3] == ["TIME_SERIES_INTRADAY", "GLOBAL_QUOTE", "TIME_SERIES_DAILY"]
        assert {"one.echo", "two.echo"} <= set(names)

    async def test_a_single_miss_lists_what_there_is(self, agent: Speaker) -> None:
        await agent.call("TOOL_LIST")
        shown = await agent.problem("TOOL_GET", tool_name="GLOBAL_QUOTES")
        assert shown.startswith("Tool 'GLOBAL_QUOTES' not found. Available tools include: ['TIME_SERIES_INTRADAY', ")
        assert shown.endswith("]...")
        assert (await agent.problem("TOOL_CALL", tool_name="nope", arguments={})).startswith("Tool 'nope' not found.")

    async def test_a_list_with_misses_gives_the_found_ones_and_names_the_others(self, agent: Speaker) -> None:
        result = await agent.call("TOOL_GET", tool_name=["GLOBAL_QUOTE", "GLOBAL_QOUTE"])
        assert not result["isError"]
        assert [tool["name"] for tool in result["structuredContent"]["tools"]] == ["GLOBAL_QUOTE"]
        assert "Did you mean 'quotes.GLOBAL_QUOTE'" in result["structuredContent"]["errors"][0]
        assert decode(result["content"][0]["text"]) == result["structuredContent"]
        assert (await agent.call("TOOL_GET", tool_name=["nope"]))["isError"]

    async def test_arguments_may_be_a_json_string(self, agent: Speaker) -> None:
        result = await agent.call("TOOL_CALL", tool_name="one.echo", arguments='{"message": "hi"}')
        assert result["content"][0]["text"] == "hi"

    async def test_an_error_of_the_tool_stays_one(self, agent: Speaker) -> None:
        result = await agent.call("TOOL_CALL", tool_name="one.fails", arguments={})
        assert result["isError"]
        assert "structuredContent" not in result

    async def test_every_kind_of_content_passes(self, agent: Speaker) -> None:
        result = await agent.call("TOOL_CALL", tool_name="one.rich", arguments={})
        kinds = [block["type"] for block in result["content"]]
        assert kinds == ["text", "image", "audio", "resource_link", "resource", "hologram"]


async def test_upper_snake_case_where_the_configuration_says_so(open_gateway: OpenGateway) -> None:
    servers = {"calculator": seed_server("calculator"), "one": peer("Echo"), "two": peer("Echo")}
    async with open_gateway(servers, meta={"upper": True}) as gateway:
        agent = Speaker(gateway, "meta")
        names = [tool["name"] for tool in decode(await agent.text("TOOL_LIST"))]
        assert names[:5] == ["ADD", "MULTIPLY", "DIVIDE", "SQRT", "ONE_ECHO"]
        result = await agent.call("TOOL_CALL", tool_name="TWO_ECHO", arguments={"message": "two"})
        assert result["content"][0]["text"] == "two"
        assert decode(await agent.text("TOOL_GET", tool_name="sqrt"))["name"] == "SQRT"


async def test_a_flat_catalogue_may_stand_beside_the_three(open_gateway: OpenGateway) -> None:
    async with open_gateway({"one": peer("Echo")}, dialects=["flat", "meta"]) as gateway:
        names = await Speaker(gateway, "flat", "meta").names()
    assert {"one__echo", "TOOL_LIST", "TOOL_GET", "TOOL_CALL"} <= set(names)
