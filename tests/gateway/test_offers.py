"""Resources, prompts and completion of many upstreams and of Wicket itself, over one connection."""

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.conftest import PEERS, OpenGateway, published, replay
from tests.gateway.extensions_document import shows
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_extensions import ask


@pytest.mark.node
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_resources_and_prompts_are_named_by_their_server(
    mode: Any, open_gateway: OpenGateway, tmp_path: Path
) -> None:
    servers = {"everything": published("mcp-server-everything"), "git": replay("git")}
    async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
        async with Client(address, mode=mode) as client:
            resources = [str(one.uri) for one in (await client.list_resources()).resources]
            assert "wicket://overview" in resources
            document = next(uri for uri in resources if uri.startswith("mcp://everything/"))
            read = await client.read_resource(document)
            assert str(read.contents[0].uri) == document
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert {"discover", "find_tool", "backend_status", "everything/simple-prompt"} <= prompts
            simple = await client.get_prompt("everything/simple-prompt")
            assert simple.messages
            overview = await client.read_resource("wicket://overview")
            assert overview.contents == (await client.read_resource("wicket://overview")).contents
            for wrong in ("wicket://nothing", "mcp://nobody/x", "file:///etc/passwd"):
                with pytest.raises(MCPError) as caught:
                    await client.read_resource(wrong)
                assert caught.value.error.code == (-32002 if mode == "legacy" else -32602)
            with pytest.raises(MCPError, match=r"No prompt named 'everything/simpel-prompt'\. Did you mean"):
                await client.get_prompt("everything/simpel-prompt")


@pytest.mark.node
async def test_links_in_the_lua_vocabulary_lead_through_the_gateway(open_gateway: OpenGateway) -> None:
    async with open_gateway({"everything": published("mcp-server-everything")}) as gateway:
        async with serve_http(gateway, "lua", token=None) as address, Client(address) as client:
            asked = {
                "luaServerName": "everything",
                "luaToolName": "get_resource_links",
                "sampleArgs": {"count": 1},
            }
            shown = await client.call_tool("inspect-tool-response", asked)
            assert "mcp://everything/demo://" in str(shown.content)
            script = "result(everything.get_resource_links({count = 1}):await())"
            answer = await client.call_tool("execute", {"script": script})
            link = next(block for block in answer.content if block.type == "resource_link")
            assert (await client.read_resource(str(link.uri))).contents


async def test_long_lists_come_in_pages_behind_opaque_cursors(open_gateway: OpenGateway) -> None:
    many = {"command": sys.executable, "args": [str(PEERS / "many_resources.py"), "1200"]}
    async with open_gateway({"many": many}) as gateway, serve_http(gateway, token=None) as address:
        async with Client(address) as client:
            found: list[str] = []
            cursor: str | None = None
            for _ in range(3):
                page = await client.list_resources(cursor=cursor)
                found += [str(one.uri) for one in page.resources]
                cursor = page.next_cursor
            assert cursor is None
            assert [uri for uri in found if uri.startswith("mcp://")] == [f"mcp://many/item://{n}" for n in range(1200)]
            with pytest.raises(MCPError, match="cursor was not made by this gateway"):
                await client.list_resources(cursor="made up")


EVERY_LIST = {
    "tools/list": ("tools", "name", 2 * 2600),
    "resources/list": ("resources", "uri", 2 * 2600),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", 2 * 2600),
    "prompts/list": ("prompts", "name", 2 * 2600),
    "skills/list": ("skills", "uri", 2 * 2600),
    "groups/list": ("groups", "name", 1 + 600),
}


@shows("any", "pages of every list, from servers and to clients", clients="modern", servers="legacy")
async def test_every_list_is_read_and_given_in_pages(open_gateway: OpenGateway) -> None:
    many = {"command": sys.executable, "args": [str(PEERS / "many_resources.py"), "2600"]}
    servers = {"one": {**many, "tags": [f"t{n}" for n in range(600)]}, "two": many}
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        for method, (kind, key, count) in EVERY_LIST.items():
            entries: list[str] = []
            pages = 0
            cursor: dict[str, Any] = {}
            while pages == 0 or cursor:
                page = await ask(client, method, cursor)
                entries += [entry[key] for entry in page[kind]]
                cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
                pages += 1
            assert pages > 1, method
            assert len(entries) == len(set(entries)) >= count, method
            assert (await ask(client, method, {"cursor": "made up"}))["code"] == -32602, method
        directory = await ask(client, "resources/directory/read", {"uri": "skill://one/s1"})
        assert (len(directory["resources"]), directory["nextCursor"]) == (400, "400")
        more = {"uri": "skill://one/s1", "cursor": directory["nextCursor"]}
        assert (await ask(client, "resources/directory/read", more))["nextCursor"] == "800"
