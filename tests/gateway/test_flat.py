"""The flat vocabulary: every upstream tool under its own name, as the upstream sent it."""

import json
import re

import pytest
from mcp import Client

from tests.conftest import CATALOG, OpenGateway, peer, replay
from tests.gateway.serving import serve_http
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.flat import Flat
from wicket_mcp.errors import Refused
from wicket_mcp.model import LOCAL, Silent


async def test_definitions_pass_as_they_came_but_for_the_name(open_gateway: OpenGateway) -> None:
    captured = {tool["name"]: tool for tool in json.loads((CATALOG / "git.json").read_text())["tools"]}
    async with open_gateway({"git": replay("git")}) as gateway:
        listed = {tool["name"]: tool for tool in await Flat().list(gateway.verbs, LOCAL)}
    assert listed["git__git_log"] == {**captured["git_log"], "name": "git__git_log"}


async def test_names_are_short_unique_and_plain(open_gateway: OpenGateway) -> None:
    servers = {name: replay(name) for name in ("awslabs-aws-dataprocessing", "awslabs-ecs", "gitlab", "git")}
    async with open_gateway(servers) as gateway:
        names = [tool["name"] for tool in await Flat().list(gateway.verbs, LOCAL)]
        assert len(names) == len(set(names)) == len(await gateway.tools())
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


async def test_a_schema_without_a_type_is_shown_as_the_object_it_means(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("OneBadTool")}) as gateway:
        listed = {tool["name"]: tool for tool in await Flat().list(gateway.verbs, LOCAL)}
    assert listed["x__untyped"]["inputSchema"]["type"] == "object"


async def test_large_results_pass_whole(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        result = await Flat().call(gateway.verbs, "x__big", ToolCall({"rows": 5000}, Silent()))
    assert result is not None
    assert len(json.loads(result["content"][0]["text"])["items"]) == 5000


async def test_an_upstreams_json_rpc_error_stays_one(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        with pytest.raises(Refused, match="not today"):
            await Flat().call(gateway.verbs, "x__refuses", ToolCall({}, Silent()))


async def test_the_sdks_own_client_takes_the_whole_list(open_gateway: OpenGateway) -> None:
    servers = {name: replay(name) for name in ("gitlab", "github", "linear", "notion")}
    async with open_gateway(servers) as gateway, serve_http(gateway, "flat", token=None) as address:
        async with Client(address) as client:
            tools = (await client.list_tools()).tools
    assert len(tools) == 9 + 26 + 198 + 24
