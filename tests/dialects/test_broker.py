"""Seed 003, "Reflective Mode" of the MCP Broker: every example call, file and error of its document."""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.conftest import OpenGateway, Server, peer, published
from tests.dialects.seeds import TRANSPORTS, Speaker, gateway_over, seed_server, speaking
from wicket_mcp.app import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.config.read.formats import load
from wicket_mcp.errors import ConfigError, UnknownName

SERVERS = {"qdrant": seed_server("qdrant"), "github": seed_server("github")}
OVERRIDES = [
    {
        "name": "qdrant.search",
        "server": "qdrant",
        "title": "Qdrant Vector Search",
        "description": "Search the Qdrant vector database",
    },
    {
        "name": "github.create_issue",
        "server": "github",
        "title": "Create GitHub Issue",
        "description": "Create a new issue",
    },
]


@asynccontextmanager
async def broker(
    folder: Path, servers: dict[str, Server], *, overrides: Any = (), registry: Any = (), **options: Any
) -> AsyncGenerator[Gateway]:
    """A gateway whose configuration lies beside the broker's two files."""
    (folder / "tools.overrides.json").write_text(json.dumps({"overrides": list(overrides)}))
    (folder / "tools.registry.json").write_text(json.dumps({"tools": list(registry)}))
    listed = [{"id": name, "transport": "stdio", **server} for name, server in servers.items()]
    for entry in listed:
        entry.pop("connect_timeout", None)
    config = folder / "servers.config.json"
    config.write_text(json.dumps({"servers": listed}))
    settings = msgspec.structs.replace(load(config), state_dir=str(folder / "state"), **options)
    async with Gateway.open(settings) as gateway:
        yield gateway


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_seed_003_patterns_discovery_first_and_direct_invoke(
    transport: str, tmp_path: Path, open_gateway: OpenGateway
) -> None:
    servers = {**SERVERS, "time": published("mcp-server-time")}
    async with speaking("broker", transport, servers, tmp_path, open_gateway) as agent:
        assert await agent.names() == {"broker_search", "broker_invoke"}
        every = await agent.value("broker_search")
        assert [(entry["server"], entry["name"]) for entry in every] == [
            ("qdrant", "search"),
            ("github", "create_issue"),
            ("github", "list_repos"),
            ("time", "get_current_time"),
            ("time", "convert_time"),
        ]
        assert all(list(entry) == ["server", "name", "title", "description"] for entry in every)
        found = await agent.text(
            "broker_invoke",
            server="qdrant",
            tool="search",
            args={"collection": "my_collection", "query": "example search", "limit": 10},
        )
        assert found == "10 points of my_collection near example search"
        issue = {"repo": "owner/repo", "title": "Bug report", "body": "Description"}
        made = await agent.text("broker.invoke", server="github", tool="create_issue", args=issue)
        assert made == "owner/repo#1: Bug report"
        zone = {"timezone": "Europe/Paris"}
        now = await agent.call("broker_invoke", server="time", tool="get_current_time", args=zone)
        assert now.structured_content["timezone"] == "Europe/Paris"


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def searcher(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Speaker]:
    async with broker(tmp_path_factory.mktemp("broker"), SERVERS) as gateway:
        yield Speaker(gateway, "broker")


@pytest.mark.asyncio(loop_scope="class")
class TestSearch:
    async def test_seed_003_search_by_query_on_a_fresh_process_finds_everything(self, searcher: Speaker) -> None:
        found = decode(await searcher.text("broker.search", q="search"))
        assert found[0]["name"] == "search"

    async def test_seed_003_search_within_specific_servers(self, searcher: Speaker) -> None:
        found = decode(await searcher.text("broker_search", servers=["github", "qdrant"]))
        assert [entry["server"] for entry in found] == ["qdrant", "github", "github"]
        assert [entry["name"] for entry in decode(await searcher.text("broker_search", servers=["qdrant"]))] == [
            "search"
        ]

    async def test_a_substring_always_counts(self, searcher: Speaker) -> None:
        assert [entry["name"] for entry in decode(await searcher.text("broker_search", q="ate_iss"))] == [
            "create_issue"
        ]

    async def test_an_unknown_server_is_named_beside_the_found_ones(self, searcher: Speaker) -> None:
        result = await searcher.call("broker_search", servers=["qdrant", "nowhere"])
        assert [block["text"] for block in result["content"][1:]] == ["Server not found: nowhere"]
        assert await searcher.problem("broker_search", servers=["nowhere"]) == "Server not found: nowhere"


async def test_seed_003_performance_a_server_that_is_not_used_is_not_started(tmp_path: Path) -> None:
    async with broker(tmp_path, SERVERS) as gateway:
        agent = Speaker(gateway, "broker")
        await agent.call("broker_invoke", server="qdrant", tool="search", args={"collection": "c", "query": "q"})
        states = {status.name: status.state for status in await gateway.verbs.servers(gateway.principal)}
    assert states == {"qdrant": "ready", "github": "unseen"}


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def unlucky(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Speaker]:
    servers = {"bad": peer("ExitsAtOnce"), "qdrant": seed_server("qdrant")}
    async with gateway_over(servers, tmp_path_factory.mktemp("state")) as gateway:
        yield Speaker(gateway, "broker")


@pytest.mark.asyncio(loop_scope="class")
class TestErrors:
    async def test_seed_003_server_not_found(self, unlucky: Speaker) -> None:
        problem = await unlucky.problem("broker.invoke", server="nonexistent", tool="foo", args={})
        assert problem == "Server not found: nonexistent"

    async def test_seed_003_tool_not_found_static_tools(self, unlucky: Speaker) -> None:
        with pytest.raises(UnknownName) as caught:
            await unlucky.call("some_unknown_tool")
        assert str(caught.value) == (
            "Tool not found: some_unknown_tool. Use broker.search to discover tools or broker.invoke to call by name."
        )

    async def test_seed_003_tool_not_found_on_invoke(self, unlucky: Speaker) -> None:
        problem = await unlucky.problem("broker_invoke", server="qdrant", tool="xyz")
        assert problem == ("Tool not found: xyz. Use broker.search to discover tools or broker.invoke to call by name.")

    async def test_seed_003_upstream_server_failure(self, unlucky: Speaker, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            result = await unlucky.call("broker_search")
        assert [entry["name"] for entry in decode(result["content"][0]["text"])] == ["search"]
        assert any(line.startswith("[broker.search] Failed to list tools from bad: ") for line in caplog.messages)
        assert result["content"][1]["text"].startswith("Failed to list tools from bad: ")


class TestFavourites:
    async def test_seed_003_example_with_overrides(self, tmp_path: Path) -> None:
        async with broker(tmp_path, SERVERS, overrides=OVERRIDES) as gateway:
            agent = Speaker(gateway, "broker")
            assert await agent.names() == ["broker_search", "broker_invoke", "qdrant_search", "github_create_issue"]
            result = await agent.call("qdrant.search", collection="docs", query="example")
            assert result["content"][0]["text"] == "3 points of docs near example"
            first, second, *rest = decode(await agent.text("broker_search"))
            assert first == {
                "server": "qdrant",
                "name": "qdrant.search",
                "title": "Qdrant Vector Search",
                "description": "Search the Qdrant vector database",
            }
            assert second["name"] == "github.create_issue"
            assert [entry["name"] for entry in rest] == ["list_repos"]

    async def test_seed_003_pattern_3_a_favourite_under_another_name_has_the_real_schema(self, tmp_path: Path) -> None:
        renamed = [{"name": "search_vectors", "server": "qdrant", "tool": "search"}]
        async with broker(tmp_path, SERVERS, overrides=renamed) as gateway:
            menu = gateway.protocol("broker").menu
            listed = {tool["name"]: tool for tool in await menu.list(gateway.verbs)}
            assert listed["search_vectors"]["inputSchema"]["required"] == ["collection", "query"]
            assert listed["search_vectors"]["description"] == "Find the points that are closest to a query"
            agent = Speaker(gateway, "broker")
            result = await agent.call("search_vectors", collection="docs", query="example")
            assert result["content"][0]["text"] == "3 points of docs near example"
            assert "missing 'query'" in await agent.problem("search_vectors", collection="docs")

    async def test_seed_003_backwards_compatibility_an_override_wins_over_the_registry(self, tmp_path: Path) -> None:
        registry = [{"name": "qdrant.search", "server": "qdrant"}, {"name": "github.list_repos", "server": "github"}]
        async with broker(tmp_path, SERVERS, overrides=OVERRIDES[:1], registry=registry) as gateway:
            found = decode(await Speaker(gateway, "broker").text("broker_search"))
        titles = [entry["title"] for entry in found]
        assert titles == ["Qdrant Vector Search", "github.list_repos", "create_issue"]

    async def test_dotted_names_are_shown_on_request(self, tmp_path: Path) -> None:
        async with broker(tmp_path, SERVERS, overrides=OVERRIDES[:1], dotted_names=True) as gateway:
            names = await Speaker(gateway, "broker").names()
        assert {"broker.search", "broker.invoke", "qdrant.search"} <= set(names)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('{"overrides": [{"name": "x"}]}', r"overrides\[0\]: needs a 'name' and a 'server'"),
            ('{"overrides": {}}', "expected a list of tools"),
            ('{"overrides": [', "is not valid JSON"),
            ('{"overrides": [{"name": 1, "server": "x"}]}', r"overrides\[0\].name: expected a string"),
        ],
    )
    async def test_a_broken_file_is_refused_with_its_place(self, text: str, problem: str, tmp_path: Path) -> None:
        (tmp_path / "tools.overrides.json").write_text(text)
        (tmp_path / "wicket.toml").write_text("")
        with pytest.raises(ConfigError, match=problem) as refused:
            load(tmp_path / "wicket.toml")
        assert refused.value.file == str(tmp_path / "tools.overrides.json")


async def test_a_favourite_of_an_unknown_server_says_so(tmp_path: Path) -> None:
    lost = [{"name": "lost", "server": "nowhere"}]
    async with broker(tmp_path, SERVERS, overrides=lost) as gateway:
        assert await Speaker(gateway, "broker").problem("lost") == "Server not found: nowhere"
