"""MCP Inspector as a client of ours: on the command line in both eras, and as a host that shows interfaces."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.conftest import PEERS, ROOT, OpenGateway, Server, peer, published
from tests.gateway.extensions_document import shows
from tests.gateway.serving import TOKEN, serve_http
from tests.real.inspector import CHROMIUM, installed, run_inspector, web_host

playwright = pytest.importorskip("playwright.async_api")
playwright.expect.set_options(timeout=40_000)  # a busy machine takes longer than the default of 5 s
pytestmark = [
    pytest.mark.node,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not installed(), reason=needs.NPM_SERVERS),
]
SKILLS: Server = {
    "command": sys.executable,
    "args": ["-m", "tests.conformance.skill_server", "--stdio"],
    "cwd": str(ROOT),
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_command_line_lists_finds_calls_and_reads(
    open_gateway: OpenGateway, tmp_path: Path, era: str
) -> None:
    async with open_gateway({"x": peer("Echo"), "s": SKILLS}) as gateway, serve_http(gateway) as address:

        async def ask(method: str, *arguments: str) -> Any:
            return await run_inspector(tmp_path, address, "--method", method, *arguments, token=TOKEN, era=era)

        async def call(tool: str, arguments: str) -> str:
            answer = await ask("tools/call", "--tool-name", tool, "--tool-args-json", arguments)
            return answer["content"][0]["text"]

        tools = [tool["name"] for tool in (await ask("tools/list"))["tools"]]
        assert tools == ["find_tools", "describe_tools", "call_tool", "run_script", "read_result"]
        assert "x.echo(" in await call("find_tools", '{"query": "echo a message"}')
        assert "hello" in await call("call_tool", '{"name": "x.echo", "arguments": {"message": "hello"}}')
        uris = [entry["uri"] for entry in (await ask("resources/list"))["resources"]]
        assert "skill://s/pdf-forms/SKILL.md" in uris
        read = await ask("resources/read", "--uri", "skill://s/pdf-forms/SKILL.md")
        assert read["contents"][0]["uri"] == "skill://s/pdf-forms/SKILL.md"


@shows("skills", "list, read, verify by MCP Inspector", clients="modern", servers="modern")
async def test_the_command_line_finds_nothing_wrong_with_skills_and_tools(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    async with open_gateway({"s": SKILLS}) as gateway, serve_http(gateway) as address:
        arguments = ("--method", "skills/list", "--verify")
        last = await run_inspector(tmp_path, address, *arguments, token=TOKEN, era="modern")
        assert (last["uri"], last["outcome"]) == ("skill://s/code-review/SKILL.md", "verified")
        listed = await run_inspector(tmp_path, address, "--method", "tools/list", "--strict", token=TOKEN)
        assert len(listed["tools"]) == 5


@shows("ui", "two published app servers in MCP Inspector, in Chromium", clients="both", servers="published")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)
async def test_two_published_interfaces_are_shown_by_a_host_in_a_browser(
    open_gateway: OpenGateway, tmp_path: Path, era: str
) -> None:
    servers = {
        "map": published("mcp-map-server", "--stdio"),
        "budget": published("mcp-budget-allocator-server", "--stdio"),
    }
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        playwright.async_playwright() as play,
        web_host(play, tmp_path, address, TOKEN, era) as host,
    ):
        budget = await host.open_app("Get Budget Data")
        await playwright.expect(budget.locator("body")).to_contain_text("Allocated: $100,000 / $100,000")
        await playwright.expect(budget.locator("body")).to_contain_text("Engineering")
        await host.close_app()
        world = await host.open_app("Show Map")
        # The map is drawn with a library from the web, which is not there; its page runs as far as asking for it.
        await playwright.expect(world.locator("body")).to_contain_text("CesiumJS")
        await host.until_asked_for("cesium.com")  # the addresses that the server allows its page pass


def live(name: str, other: str, *temper: str) -> Server:
    return {"command": sys.executable, "args": [str(PEERS / "live_pages.py"), name, other, *temper]}


def own_answers(name: str) -> list[str]:
    """What a page tells that got what is its own server's, and nothing else."""
    page = f"page: ui://{name}/board/main.html"
    return [f"refresh: {name}", "only: refused", "listed: refused", "menu: refused", page, "end"]


@shows("ui", "an app's calls and reads in MCP Inspector, in Chromium", clients="both", servers="modern")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)
async def test_what_an_interface_asks_in_a_browser_stays_within_its_server(
    open_gateway: OpenGateway, tmp_path: Path, era: str
) -> None:
    async with (
        open_gateway({"one": live("one", "two"), "two": live("two", "one")}) as gateway,
        serve_http(gateway) as address,
        playwright.async_playwright() as play,
        web_host(play, tmp_path, address, TOKEN, era) as host,
    ):
        for name in ("one", "two"):
            frame = await host.open_app(f"open of {name}")
            await playwright.expect(frame.locator("body")).to_contain_text("end")
            assert (await frame.locator("body").inner_text()).split("\n") == own_answers(name)
            await host.close_app()


@shows("ui", "a hostile page in MCP Inspector, in Chromium", clients="both", servers="modern")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)
async def test_a_hostile_interface_finds_no_way_to_another_server(
    open_gateway: OpenGateway, tmp_path: Path, era: str
) -> None:
    servers = {"one": live("one", "two", "hostile"), "two": live("two", "one")}
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        playwright.async_playwright() as play,
        web_host(play, tmp_path, address, TOKEN, era) as host,
    ):
        frame = await host.open_app("open of one")
        await playwright.expect(frame.locator("body")).to_contain_text("end")
        assert (await frame.locator("body").inner_text()).split("\n") == own_answers("one")
        seen = (await gateway.call("two.seen"))["structuredContent"]
        assert seen["called"] == ["seen"], "the other server was called by this test alone"
