"""Two published servers with interfaces (MCP Apps) behind one gateway, as a host sees them."""

import pytest

from tests import needs
from tests.conftest import NODE_SERVERS, OpenGateway, published
from tests.gateway.extensions_document import shows
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_extensions import ask
from wicket_mcp.extensions import APP_TYPE, UI

pytestmark = pytest.mark.skipif(not (NODE_SERVERS / "mcp-map-server").exists(), reason=needs.NPM_SERVERS)
HOST = {UI: {"mimeTypes": [APP_TYPE]}}


@shows("ui", "two published app servers", clients="modern", servers="legacy")
async def test_a_host_sees_both_interfaces_reads_them_and_calls_their_tools(open_gateway: OpenGateway) -> None:
    servers = {
        "map": published("mcp-map-server", "--stdio"),
        "budget": published("mcp-budget-allocator-server", "--stdio"),
    }
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        plain = {tool["name"] for tool in (await ask(client, "tools/list", {}))["tools"]}
        tools = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}, HOST))["tools"]}
        direct = {name: tool for name, tool in tools.items() if name not in plain}
        assert plain <= set(tools)
        assert {name.partition("__")[0] for name in direct} == {"map", "budget"}
        for name, tool in direct.items():
            page = tool["_meta"]["ui"]["resourceUri"]
            assert page.startswith(f"ui://{name.partition('__')[0]}/")
            content = (await ask(client, "resources/read", {"uri": page}, HOST))["contents"][0]
            assert (content["uri"], content["mimeType"]) == (page, APP_TYPE)
            assert "<html" in content["text"]
            result = await ask(client, "tools/call", {"name": name, "arguments": {}}, HOST)
            assert result["isError"] is False if "isError" in result else result["content"]
