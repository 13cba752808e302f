"""Seed 000, "Progressive Tool Discovery" of the MCP Gateway Proxy: every example and error of its document."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import Client

from tests.conftest import OpenGateway, peer, published
from tests.dialects.seeds import TRANSPORTS, Speaker, gateway_over, seed_server, speaking
from tests.dialects.talking import Talker
from tests.gateway.serving import serve_http
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.model import Principal, Silent

SERVERS = {"calculator": seed_server("calculator"), "data-server": seed_server("data")}

LIST_SERVERS = """\
Available MCP Servers:

## calculator (Lua: calculator)
A simple calculator server
Version: 1.0.0

## data-server (Lua: data_server)
Provides data access tools"""

LIST_TOOLS = """\
Tools for calculator:

- add (Lua: add): Add two numbers together
- multiply (Lua: multiply): Multiply two numbers
- divide (Lua: divide): Divide two numbers
- sqrt (Lua: sqrt): The square root of a number"""

DETAILS = """\
## add

Add two numbers together

### Parameters

- a (number, required): First number to add
- b (number, required): Second number to add"""

EXAMPLE = """\
### Example Usage

local res = calculator.add({
  a = 1,
  b = 1
}):await()
result(res)"""

COMBINED = """\
local sum = calculator.add({ a = 10, b = 20 }):await()
local product = calculator.multiply({ a = sum.result, b = 2 }):await()
result({ sum = sum, product = product })
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_seed_000_example_discovery_session(transport: str, tmp_path: Path, open_gateway: OpenGateway) -> None:
    async with speaking("lua", transport, SERVERS, tmp_path, open_gateway) as agent:
        assert await agent.names() == {
            "list-servers",
            "list-server-tools",
            "tool-details",
            "inspect-tool-response",
            "execute",
        }
        assert await agent.text("list-servers") == LIST_SERVERS
        assert await agent.text("list-server-tools", luaServerName="calculator") == LIST_TOOLS
        details = await agent.text("tool-details", luaServerName="calculator", luaToolName="add")
        assert details.startswith(DETAILS)
        assert details.endswith(EXAMPLE)
        tried = await agent.call(
            "inspect-tool-response", luaServerName="calculator", luaToolName="add", sampleArgs={"a": 1, "b": 2}
        )
        assert tried.structured_content == {"result": 3}
        answer = await agent.call("execute", script="result(calculator.add({a=5,b=3}):await())")
        assert answer.structured_content == {"result": 8}
        assert answer.content[0].text == '{"result":8}'


@pytest.mark.node
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_published_servers_speak_lua(transport: str, tmp_path: Path, open_gateway: OpenGateway) -> None:
    (tmp_path / "note.txt").write_text("from a file")
    servers = {
        "clock": published("mcp-server-time"),
        "files": published("mcp-server-filesystem", str(tmp_path)),
    }
    script = f"""
        local now = clock.get_current_time({{timezone = "Asia/Tokyo"}})
        local note = files.read_text_file({{path = "{tmp_path / "note.txt"}"}})
        result({{zone = now:await().timezone, note = note:await().content}})
    """
    async with speaking("lua", transport, servers, tmp_path, open_gateway) as agent:
        assert "## files (Lua: files)" in await agent.text("list-servers")
        answer = await agent.call("execute", script=script)
    assert answer.structured_content == {"zone": "Asia/Tokyo", "note": "from a file"}


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Speaker]:
    async with gateway_over({**SERVERS, "bad": peer("ExitsAtOnce")}, tmp_path_factory.mktemp("state")) as gateway:
        yield Speaker(gateway, "lua")


@pytest.mark.asyncio(loop_scope="class")
class TestInProcess:
    async def test_seed_000_execute_example(self, agent: Speaker) -> None:
        result = await agent.call("execute", script=COMBINED)
        assert result["structuredContent"] == {"sum": {"result": 30}, "product": {"result": 60}}

    async def test_seed_000_list_servers_names_the_error_of_a_failed_one(self, agent: Speaker) -> None:
        listed = await agent.text("list-servers")
        assert "## bad (Lua: bad)\nError: Server 'bad' exited with code 3" in listed
        assert listed.startswith(LIST_SERVERS)

    async def test_a_server_is_named_by_identifier_or_name_in_any_case(self, agent: Speaker) -> None:
        for name in ("data_server", "data-server", "Data-Server"):
            assert await agent.text("list-server-tools", luaServerName=name) == (
                "Tools for data-server:\n\n- rows (Lua: rows): Read rows of a table"
            )

    async def test_seed_000_unknown_names_list_what_there_is(self, agent: Speaker) -> None:
        assert await agent.problem("list-server-tools", luaServerName="calclator") == (
            "Server 'calclator' not found. Did you mean calculator?\n\nAvailable servers: calculator, data_server, bad"
        )
        assert await agent.problem("tool-details", luaServerName="calculator", luaToolName="adds") == (
            "Tool 'adds' not found on server 'calculator'. Did you mean add?\n\n"
            "Available tools: add, multiply, divide, sqrt"
        )

    async def test_a_failed_server_has_no_tools_and_says_why(self, agent: Speaker) -> None:
        assert "Error: Server 'bad'" in await agent.problem("list-server-tools", luaServerName="bad")

    async def test_details_show_optional_parameters_and_defaults(self, agent: Speaker) -> None:
        details = await agent.text("tool-details", luaServerName="data_server", luaToolName="rows")
        assert "- table (string, required)\n- limit (integer, optional, default 10)" in details
        assert 'data_server.rows({\n  table = "text"\n})' in details

    async def test_answers_by_the_kind_of_value(self, agent: Speaker) -> None:
        none = "Script executed successfully. No result returned."
        assert await agent.text("execute", script="local x = 1") == none
        assert await agent.text("execute", script="result('plain')") == "plain"
        assert await agent.text("execute", script="result(1) result(2.5)") == "2.5"
        array = await agent.call("execute", script="result({1, 2})")
        assert (array["content"][0]["text"], array["structuredContent"]) == ("[1,2]", {"result": [1, 2]})
        whole = await agent.call("execute", script='result({content = {{type = "text", text = "as it is"}}})')
        assert whole == {"content": [{"type": "text", "text": "as it is"}]}

    async def test_printing_is_returned_beside_the_answer(self, agent: Speaker) -> None:
        result = await agent.call("execute", script="print('seen', 1) result('done')")
        assert [block["text"] for block in result["content"]] == ["done", "Printed:\nseen\t1"]

    async def test_failures_name_line_and_hint(self, agent: Speaker) -> None:
        shown = await agent.problem("execute", script="local x = 1\ncalculatr.add({a = 1, b = 2}):await()")
        assert shown.startswith("Script execution failed:\n")
        assert "line 2: calculatr.add" in shown
        assert "calculator" in shown.split("Hint:")[1]
        shadowed = await agent.problem("execute", script="local result = 1\nresult(result)")
        assert "hides the function" in shadowed

    async def test_an_error_of_a_tool_can_be_caught(self, agent: Speaker) -> None:
        script = (
            "local ok, why = pcall(function() return calculator.divide({a = 1, b = 0}):await() end) result({ok, why})"
        )
        ok, why = (await agent.call("execute", script=script))["structuredContent"]["result"]
        assert ok is False
        assert "calculator.divide: " in why

    async def test_a_script_obeys_the_schema_and_the_policy_like_a_direct_call(self, agent: Speaker) -> None:
        assert "missing 'b' (number)" in await agent.problem("execute", script="calculator.add({a = 1}):await()")


async def test_seed_000_name_sanitisation(open_gateway: OpenGateway) -> None:
    names = ["data-server", "my.api", "123numbers", "while", "a-b", "a_b", "print"]
    async with open_gateway({name: peer("Echo") for name in names}) as gateway:
        listed = await Speaker(gateway, "lua").text("list-servers")
        for name, ident in zip(
            names, ["data_server", "my_api", "_123numbers", "_while", "a_b", "a_b_2", "print_2"], strict=True
        ):
            assert f"## {name} (Lua: {ident})" in listed
            script = f'result({ident}.echo({{message = "{ident}"}}):await())'
            assert await Speaker(gateway, "lua").text("execute", script=script) == ident


@pytest.mark.node
@pytest.mark.parametrize(("isolation", "seen"), [("session", [1, 1, 2]), ("shared", [1, 2, 3])])
async def test_sessions_see_upstream_state_of_their_own_where_the_server_asks_for_it(
    open_gateway: OpenGateway, isolation: str, seen: list[int]
) -> None:
    thinking = published("mcp-server-sequential-thinking", isolation=isolation, env={"DISABLE_THOUGHT_LOGGING": "true"})
    script = """
        local thought = {thought = "on", nextThoughtNeeded = true, thoughtNumber = 1, totalThoughts = 3}
        result(thinking.sequentialthinking(thought):await().thoughtHistoryLength)
    """
    async with open_gateway({"thinking": thinking}) as gateway, serve_http(gateway, "lua", token=None) as address:
        async with Client(address, mode="legacy") as one, Client(address, mode="legacy") as other:
            talkers = [Talker(one), Talker(other), Talker(one)]
            assert [int(await agent.text("execute", script=script)) for agent in talkers] == seen


@pytest.mark.promise("T26", "Inspecting a tool never calls it; trying a tool says so and needs the right to call.")
async def test_t26_looking_at_a_tool_calls_nothing(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        await gateway.tools()
        menu = gateway.protocol("lua").menu
        looker = Silent(Principal("looker", frozenset({"discover"})))
        names = {"luaServerName": "x", "luaToolName": "echo"}
        for tool in ("list-servers", "list-server-tools", "tool-details"):
            await menu.call(gateway.verbs, tool, ToolCall(names if tool == "tool-details" else {}, looker))
        tried = await menu.call(gateway.verbs, "inspect-tool-response", ToolCall(names, looker))
        assert tried["isError"]
        assert "invoke" in str(tried)
        assert not [one for one in await gateway.store.recent_calls(looker.principal, 50) if one.outcome == "ok"]
        descriptions = {one["name"]: one["description"] for one in await menu.list(gateway.verbs)}
        assert "calls" in descriptions["inspect-tool-response"].lower()
