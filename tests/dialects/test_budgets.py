"""What discovery costs in tokens (o200k), over every captured tool: the budgets of seed 002, and of our own menus."""

import json
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.conftest import CATALOG
from tests.dialects.seeds import Speaker, gateway_over
from wicket_mcp.app import Gateway
from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.dialects.chain_words import brief
from wicket_mcp.dialects.factory import NAMES
from wicket_mcp.dialects.own_resources import read
from wicket_mcp.model import LOCAL, Listing, Silent, Tool
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.open import open_store

TOKENIZER: Any = import_module("rs_bpe").openai.o200k_base()
COMMAND = "never-started"
ORDERS = ("you must", "you should", "always call", "important", "never ", "first call")


def tokens(value: Any) -> int:
    return TOKENIZER.count(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Gateway]:
    """A gateway that knows all 79 captured servers from an earlier run, and starts none of them."""
    folder = tmp_path_factory.mktemp("state")
    paths = sorted(CATALOG.glob("*.json"))
    store = await open_store(folder / "wicket.db")
    for path in paths:
        await store.save_listing(stored(path))
    await store.close()
    async with gateway_over({path.stem: {"command": COMMAND} for path in paths}, folder) as gateway:
        yield gateway


def stored(path: Path) -> StoredListing:
    captured = json.loads(path.read_text())
    tools = tuple(Tool(path.stem, tool["name"], tool) for tool in captured["tools"])
    listing = Listing(path.stem, captured["serverInfo"] or {}, instructions=captured["instructions"] or "", tools=tools)
    return StoredListing(listing, fingerprint(ServerConfig(name=path.stem, command=COMMAND)))


@pytest.mark.asyncio(loop_scope="class")
class TestBudgets:
    async def test_seed_002_success_metrics_for_every_tool(self, gateway: Gateway) -> None:
        agent = Speaker(gateway, "chain")
        api = await gateway.scripting.api(gateway.verbs, LOCAL)
        tools = await gateway.tools()
        assert len(tools) == 1966
        assert max(tokens(encode(brief(tool, api)).decode()) for tool in tools) < 100
        for tool in tools[::20]:
            assert tokens(await agent.text("tool_info", tool_name=tool.key)) < 300

    @pytest.mark.parametrize(
        "task", ["create a github issue", "read rows of a table", "get the weather", "send a message to a channel"]
    )
    async def test_seed_002_typical_flow(self, gateway: Gateway, task: str) -> None:
        agent = Speaker(gateway, "chain")
        found = await agent.text("search_tools", task_description=task)
        best = decode(found)[0]
        info = await agent.text("tool_info", tool_name=best["name"])
        asked = (
            tokens({"task_description": task}) + tokens({"tool_name": best["name"]}) + tokens({"code": best["call"]})
        )
        assert tokens(found) + tokens(info) + asked < 1500

    async def test_seed_002_task_2_2_the_overview_is_short(self, gateway: Gateway) -> None:
        body = await read(gateway.verbs, Silent(), "wicket://overview")
        assert body is not None
        text = body["contents"][0]["text"]
        assert "1,966 tools of 79 servers" in text
        assert tokens(text) <= 500

    @pytest.mark.parametrize(
        ("dialect", "most"), [("native", 500), ("lua", 600), ("meta", 350), ("chain", 900), ("broker", 250)]
    )
    async def test_menus_stay_small(self, gateway: Gateway, dialect: str, most: int) -> None:
        assert tokens(await gateway.protocol(dialect).menu.list(gateway.verbs)) <= most
        assert tokens(await gateway.instructions(dialect)) <= 200

    async def test_descriptions_describe_and_give_no_orders(self, gateway: Gateway) -> None:
        for dialect in NAMES:
            if dialect == "flat":
                continue
            for tool in await gateway.protocol(dialect).menu.list(gateway.verbs):
                assert not any(order in tool["description"].lower() for order in ORDERS), tool["name"]
                assert tool["annotations"]["title"]

    async def test_all_vocabularies_fit_on_one_menu(self, gateway: Gateway) -> None:
        names = await Speaker(gateway, *NAMES).names()
        assert len(names) == len(set(names)) > 1966
        assert {"find_tools", "execute", "TOOL_CALL", "call_tool_chain", "broker_invoke", "invoke_tool"} <= set(names)


FASTMCP = {1966: 1063}
"""Tokens of a first call by FastMCP's search over the same tools, as `bench/tokens.py` measured them: where Wicket's
catalogue is searched too.
"""


@pytest.mark.parametrize("count", [3, 5, 20, 100, 1966])
async def test_a_first_call_costs_no_more_than_by_the_flat_list(count: int, tmp_path: Path) -> None:
    left, servers = count, dict[str, Any]()
    store = await open_store(tmp_path / "wicket.db")
    for path in sorted(CATALOG.glob("*.json"), key=lambda path: (len(stored(path).listing.tools), path.name)):
        listed = stored(path)
        tools = listed.listing.tools[:left]
        left -= len(tools)
        if tools:
            await store.save_listing(replace(listed, listing=replace(listed.listing, tools=tools)))
            servers[path.stem] = {"command": COMMAND}
    await store.close()
    async with gateway_over(servers, tmp_path) as gateway:
        tools = sorted(await gateway.tools(), key=lambda tool: tool.server)
        tool = tools[len(tools) // 2]
        told, call = await gateway.instructions("native"), tokens({"name": tool.key, "arguments": {}})
        flat = tokens(await gateway.protocol("flat").menu.list(gateway.verbs)) + call
        cost = tokens(await gateway.protocol("native").menu.list(gateway.verbs)) + tokens(told) + call
        searched = f"{tool.key}(" not in told
        assert searched == (count in FASTMCP)
        if searched:
            query = (tool.description or tool.title or tool.name)[:80]
            cost += tokens(await Speaker(gateway, "native").text("find_tools", query=query)) + tokens({"query": query})
            assert cost < FASTMCP[count]
        assert cost <= flat
