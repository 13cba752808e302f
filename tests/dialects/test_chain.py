"""Seed 002, "Progressive Tool Disclosure & Execution for Gatemini": each task of its plan, and each error."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import OpenGateway, peer, published
from tests.dialects.seeds import TRANSPORTS, Speaker, gateway_over, seed_server, speaking
from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject

SERVERS = {
    "calculator": seed_server("calculator", tags=["math"]),
    "data-server": seed_server("data", env={"LEVEL": "${env:PATH}", "ZONE": "${DATA_ZONE_OF_NOBODY:-}"}),
}
QUOTES = {"name": "quotes", **{key: seed_server("quotes")[key] for key in ("command", "args")}}
TYPED = """
const numbers: number[] = [1, 2, 3];
const sums = await Promise.all(numbers.map((n: number) => calculator.add({ a: n, b: n })));
console.log("summed", sums.length);
return sums.map((one) => one.result);
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_seed_002_typical_discovery_flow(transport: str, tmp_path: Path, open_gateway: OpenGateway) -> None:
    servers = {"calculator": seed_server("calculator"), "time": published("mcp-server-time")}
    async with speaking("chain", transport, servers, tmp_path, open_gateway) as agent:
        assert await agent.names() == {
            "search_tools",
            "list_tools_meta",
            "tool_info",
            "get_required_keys_for_tool",
            "call_tool_chain",
            "register_manual",
            "deregister_manual",
        }
        listed = await agent.value("list_tools_meta")
        assert "calculator.add" in listed["tools"]
        assert listed["next_cursor"] is None
        best, *_ = await agent.value("search_tools", task_description="add two numbers")
        assert best == {
            "name": "calculator.add",
            "backend": "calculator",
            "description": "Add two numbers together",
            "call": "await calculator.add({a, b})",
        }
        info = await agent.value("tool_info", tool_name=best["name"])
        assert info["parameters"] == ["a", "b"]
        answer = await agent.call(
            "call_tool_chain", code="const r = await calculator.add({a: 5, b: 3}); return r.result;"
        )
        assert answer.content[0].text == "8"
        zone = await agent.call(
            "call_tool_chain", code='{"tool": "time.get_current_time", "arguments": {"timezone": "UTC"}}'
        )
        assert zone.structured_content["timezone"] == "UTC"


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Speaker]:
    async with gateway_over(SERVERS, tmp_path_factory.mktemp("state")) as gateway:
        yield Speaker(gateway, "chain")


async def json_of(agent: Speaker, tool: str, /, **arguments: object) -> JsonObject:
    return decode(await agent.text(tool, **arguments))


@pytest.mark.asyncio(loop_scope="class")
class TestDiscovery:
    async def test_seed_002_task_1_1_brief_and_full_tool_info(self, agent: Speaker) -> None:
        brief = await json_of(agent, "tool_info", tool_name="data-server.rows")
        assert brief["parameters"] == ["table", "limit?"]
        assert brief["call"] == "await data_server.rows({table})"
        full = await json_of(agent, "tool_info", tool_name="rows", detail="full")
        assert full["input_schema"]["properties"]["limit"]["default"] == 10
        assert full["annotations"] == {"readOnlyHint": True}
        missing = await agent.problem("tool_info", tool_name="rowz")
        assert missing == "Tool 'rowz' not found. Did you mean 'data-server.rows'?"

    async def test_seed_002_task_1_2_brief_and_full_search(self, agent: Speaker) -> None:
        full, *_ = decode(await agent.text("search_tools", task_description="square root", brief=False, limit=1))
        assert full["name"] == "calculator.sqrt"
        assert full["input_schema"]["required"] == ["a"]
        tagged = decode(await agent.text("search_tools", task_description="read rows of a table", tag="math"))
        assert all(hit["backend"] == "calculator" for hit in tagged)
        assert await agent.problem("search_tools", task_description="x", tag="maths") == (
            "No tag named 'maths'. Did you mean 'math'?"
        )

    async def test_seed_002_task_1_3_pages_without_an_empty_last_one(self, agent: Speaker) -> None:
        await agent.gateway.tools()
        pages: list[list[str]] = []
        cursor: str | None = None
        while True:
            given = {"page_size": 2} if cursor is None else {"page_size": 2, "cursor": cursor}
            answer = await json_of(agent, "list_tools_meta", **given)
            pages.append(answer["tools"])
            cursor = answer["next_cursor"]
            if cursor is None:
                break
        assert [len(page) for page in pages] == [2, 2, 1]
        assert len({name for page in pages for name in page}) == 5
        whole = await json_of(agent, "list_tools_meta", page_size=5)
        assert whole["next_cursor"] is None
        for bad in ("nonsense", "WzEsMl0", "é"):
            assert "cursor" in await agent.problem("list_tools_meta", cursor=bad)

    async def test_required_keys_say_which_are_set_and_never_a_value(self, agent: Speaker) -> None:
        keys = await json_of(agent, "get_required_keys_for_tool", tool_name="rows")
        assert keys == {
            "tool_name": "data-server.rows",
            "backend": "data-server",
            "required_keys": [{"name": "PATH", "set": True}],
        }
        assert "not found" in await agent.problem("get_required_keys_for_tool", tool_name="nothing")


@pytest.mark.asyncio(loop_scope="class")
class TestCallToolChain:
    @pytest.mark.parametrize(
        "code",
        [
            '{"tool": "calculator.add", "arguments": {"a": 1, "b": 2}}',
            'return await calculator.add({"a": 1, "b": 2});',
            'await calculator.add({"a": 1, "b": 2})',
            'const r = await calculator.add({"a": 1, "b": 2});\nreturn r;',
            "return await calculator.add({a: 1, b: 2})",
        ],
    )
    async def test_a_single_call_answers_the_same_however_it_is_written(self, agent: Speaker, code: str) -> None:
        result = await agent.call("call_tool_chain", code=code)
        assert result["structuredContent"] == {"result": 3}

    async def test_typescript_calls_in_parallel_and_its_console_is_kept(self, agent: Speaker) -> None:
        result = await agent.call("call_tool_chain", code=TYPED)
        assert result["structuredContent"] == {"result": [2, 4, 6]}
        assert result["content"][1]["text"] == "Printed:\nsummed 3"

    async def test_a_thrown_error_is_an_error(self, agent: Speaker) -> None:
        shown = await agent.problem("call_tool_chain", code="let x = 1;\nthrow new Error('no good')")
        assert "Error: no good" in shown
        assert "line 2" in shown

    async def test_misspelled_names_are_hinted(self, agent: Speaker) -> None:
        backend = await agent.problem("call_tool_chain", code="return await calcultor.add({a: 1, b: 2})")
        assert "Did you mean calculator?" in backend
        tool = await agent.problem("call_tool_chain", code='return await calculator.ad({"a": 1, "b": 2})')
        assert "calculator.add" in tool
        fast = await agent.problem("call_tool_chain", code='{"tool": "calculator.ad", "arguments": {}}')
        assert "calculator.ad" in fast

    async def test_a_failing_tool_fails_the_fast_path_too(self, agent: Speaker) -> None:
        code = '{"tool": "calculator.divide", "arguments": {"a": 1, "b": 0}}'
        assert "calculator.divide: " in await agent.problem("call_tool_chain", code=code)
        assert "missing 'b'" in await agent.problem("call_tool_chain", code='return await calculator.add({"a": 1})')

    async def test_a_tool_interface_is_told_without_a_script(self, agent: Speaker) -> None:
        shown = await agent.text("call_tool_chain", code='return __getToolInterface("calculator.add")')
        assert "calculator.add(args: { a: number; b: number })" in shown

    async def test_the_timeout_ends_a_chain(self, agent: Speaker) -> None:
        shown = await agent.problem("call_tool_chain", code="while (true) {}", timeout=200)
        assert "longer than 0.2 seconds" in shown

    async def test_seed_002_task_5_1_long_output_keeps_a_handle_to_the_whole(self, agent: Speaker) -> None:
        code = 'return (await data_server.rows({table: "t", limit: 3000})).result'
        result = await agent.call("call_tool_chain", code=code)
        shown = result["content"][0]
        assert "Shape: 3000 × {id: integer, table: string}" in shown["text"]
        assert shown["annotations"] == {"audience": ["assistant"], "priority": 0.3}
        handle = result["_meta"]["wicket/result"]["id"]
        part = f'return (await results.get("{handle}", {{path: "result[2999].id"}}))'
        assert await agent.text("call_tool_chain", code=part) == "2999"
        small = await agent.call("call_tool_chain", code="return 'x'.repeat(1000)", max_output_size=100)
        assert "wicket/result" in small["_meta"]

    async def test_intent_keeps_the_sections_that_bear_on_it(self, agent: Speaker) -> None:
        code = """
            const topics = ["weather", "invoices", "gardening", "billing"];
            return topics.map((topic) => ({topic, text: (topic + " notes ").repeat(400)}));
        """
        result = await agent.call("call_tool_chain", code=code, intent="what the invoice says")
        note, answer = (block["text"] for block in result["content"])
        assert note.startswith("[Filtered by intent 'what the invoice says': 1 of 4 sections; all: id ")
        assert [section["topic"] for section in decode(answer)] == ["invoices"]
        assert len((await agent.call("call_tool_chain", code="return ['short']", intent="invoice"))["content"]) == 1


async def test_seed_002_task_4_3_tools_in_use_come_first_even_after_a_restart(open_gateway: OpenGateway) -> None:
    servers = {"calculator": SERVERS["calculator"]}
    async with open_gateway(servers) as gateway:
        agent = Speaker(gateway, "chain")
        assert (await json_of(agent, "list_tools_meta"))["tools"][0] == "calculator.add"
        await agent.call("call_tool_chain", code='await calculator.sqrt({"a": 16})')
    async with open_gateway(servers) as gateway:
        assert (await json_of(Speaker(gateway, "chain"), "list_tools_meta"))["tools"][0] == "calculator.sqrt"


class TestManuals:
    async def test_a_registered_backend_is_used_kept_and_removed(self, open_gateway: OpenGateway) -> None:
        servers = {"echo": peer("Echo")}
        async with open_gateway(servers, allow_runtime_servers=True) as gateway:
            agent = Speaker(gateway, "chain")
            done = await agent.text("register_manual", manual_call_template=QUOTES)
            assert done == "Registered backend 'quotes' with 3 tools"
            again = await agent.problem("register_manual", manual_call_template=QUOTES)
            assert again.startswith("Backend 'quotes' already exists.")
            static = await agent.problem("deregister_manual", manual_name="echo")
            assert static.startswith("backend 'echo' is a static (config-file) backend and cannot be deregistered.")
        async with open_gateway(servers, allow_runtime_servers=True) as gateway:
            agent = Speaker(gateway, "chain")
            code = '{"tool": "GLOBAL_QUOTE", "arguments": {"symbol": "X"}}'
            assert "Global Quote" in await agent.text("call_tool_chain", code=code)
            assert await agent.text("deregister_manual", manual_name="quotes") == "Deregistered backend 'quotes'"
            assert "not found" in await agent.problem("call_tool_chain", code=code)
            assert (await agent.problem("deregister_manual", manual_name="quotes")).startswith("No backend named")

    async def test_it_is_off_unless_the_configuration_allows_it(self, open_gateway: OpenGateway) -> None:
        async with open_gateway({}) as gateway:
            shown = await Speaker(gateway, "chain").problem("register_manual", manual_call_template=QUOTES)
        assert "allow_runtime_servers = true" in shown

    @pytest.mark.parametrize(
        ("template", "problem"),
        [
            ({"command": "x"}, "needs a 'name'"),
            ({"name": "a.b", "command": "x"}, "needs a 'name'"),
            ({"name": "x"}, "neither 'command' nor 'url'"),
            ({"name": "x", "command": "y", "isolation": "session"}, "unknown key 'isolation'"),
            ({"name": "x", "command": ["y"]}, "cannot be used"),
            ({"name": "x", "url": "http://169.254.169.254/latest"}, "not a public address"),
            ({"name": "x", "url": "https://example.com", "headers": {"A": "${env:HOME}"}}, "may not refer to secrets"),
        ],
    )
    async def test_a_bad_template_says_what_is_wrong(
        self, open_gateway: OpenGateway, template: JsonObject, problem: str
    ) -> None:
        async with open_gateway({}, allow_runtime_servers=True) as gateway:
            shown = await Speaker(gateway, "chain").problem("register_manual", manual_call_template=template)
        assert problem in shown

    async def test_at_most_ten_are_taken(self, open_gateway: OpenGateway) -> None:
        async with open_gateway({}, allow_runtime_servers=True) as gateway:
            agent = Speaker(gateway, "chain")
            echo = peer("Echo")
            for number in range(10):
                await agent.text("register_manual", manual_call_template={"name": f"m{number}", **echo})
            shown = await agent.problem("register_manual", manual_call_template={"name": "m10", **echo})
        assert shown.startswith("dynamic backend limit reached (10).")
