"""Wicket's own resources, prompts and completion (seed 002, phases 2 and 3), as the functions that are served."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.conftest import OpenGateway, peer
from tests.dialects.seeds import Speaker, gateway_over, seed_server
from wicket_mcp.app import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.dialects.own_completion import complete, matching
from wicket_mcp.dialects.own_prompts import get_prompt, list_prompts
from wicket_mcp.dialects.own_resources import list_resources, list_templates, read
from wicket_mcp.errors import BadArguments, UnknownName
from wicket_mcp.model import Principal, Silent

ME = Silent()
OTHER = Silent(Principal("somebody else", frozenset({"invoke"})))


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Gateway]:
    servers = {
        "calculator": seed_server("calculator", tags=["math"]),
        "echo": peer("Echo", description="Says it again."),
        "bad": peer("ExitsAtOnce"),
    }
    async with gateway_over(servers, tmp_path_factory.mktemp("state")) as gateway:
        await gateway.call("calculator.add", {"a": 1, "b": 2})
        yield gateway


async def content(gateway: Gateway, uri: str, caller: Silent = ME) -> Any:
    body = await read(gateway.verbs, caller, uri)
    assert body is not None
    (one,) = body["contents"]
    assert one["uri"] == uri
    return decode(one["text"]) if one["mimeType"] == "application/json" else one["text"]


@pytest.mark.asyncio(loop_scope="class")
class TestResources:
    async def test_seed_002_task_2_2_static_resources(self, gateway: Gateway) -> None:
        names = ["overview", "backends", "tools", "recent", "stats", "health"]
        assert [one["uri"] for one in list_resources()] == [f"wicket://{name}" for name in names]
        overview = await content(gateway, "wicket://overview")
        assert "14 tools of 3 servers" in overview
        backends = await content(gateway, "wicket://backends")
        assert [one["name"] for one in backends] == ["calculator", "echo", "bad"]
        assert backends[1]["description"] == "Says it again"
        tools = await content(gateway, "wicket://tools")
        assert tools[0] == {
            "name": "calculator.add",
            "backend": "calculator",
            "description": "Add two numbers together",
        }

    async def test_seed_002_task_2_3_templates(self, gateway: Gateway) -> None:
        assert [one["uriTemplate"] for one in list_templates()] == [
            "wicket://tool/{tool_name}",
            "wicket://backend/{backend_name}",
            "wicket://backend/{backend_name}/tools",
            "wicket://result/{id}",
        ]
        tool = await content(gateway, "wicket://tool/calculator.add")
        assert tool["inputSchema"]["required"] == ["a", "b"]
        backend = await content(gateway, "wicket://backend/calculator")
        assert (backend["tool_count"], backend["tools"][0], backend["tags"]) == (4, "add", ["math"])
        offered = await content(gateway, "wicket://backend/calculator/tools")
        assert offered[3] == {"name": "sqrt", "description": "The square root of a number"}

    async def test_gatemini_addresses_lead_to_the_same(self, gateway: Gateway) -> None:
        assert await content(gateway, "gatemini://tools") == await content(gateway, "wicket://tools")
        assert await read(gateway.verbs, ME, "mcp://echo/file:///x") is None

    async def test_seed_002_task_2_6_unknown_addresses(self, gateway: Gateway) -> None:
        for uri in ("wicket://nothing", "wicket://tool/nothing", "wicket://backend/nothing", "wicket://a/b/c/d"):
            with pytest.raises(UnknownName):
                await read(gateway.verbs, ME, uri)

    async def test_calls_and_statistics_are_ones_own(self, gateway: Gateway) -> None:
        latest, *_ = await content(gateway, "wicket://recent")
        assert (latest["tool_name"], latest["outcome"]) == ("calculator.add", "ok")
        stats = await content(gateway, "wicket://stats")
        assert stats["backends"]["calculator"]["calls"] == 1
        assert stats["most_used"] == {"calculator.add": 1}
        assert await content(gateway, "wicket://recent", OTHER) == []

    async def test_health_names_the_problem(self, gateway: Gateway) -> None:
        calculator, _, bad = await content(gateway, "wicket://health")
        assert calculator["status"] == "ready"
        assert calculator["p50_ms"] > 0
        assert "exited with code 3" in bad["problem"]

    async def test_a_stored_result_is_read_in_part_and_only_by_its_owner(self, gateway: Gateway) -> None:
        stored = await Speaker(gateway, "native").call("call_tool", name="echo.big", arguments={"rows": 5000})
        uri = f"wicket://result/{stored['_meta']['wicket/result']['id']}"
        assert (await content(gateway, f"{uri}?path=items[0].id")).startswith("0\n")
        assert "Read on with offset=3" in await content(gateway, f"{uri}?path=items&offset=1&limit=2")
        with pytest.raises(UnknownName, match="make the call again"):
            await read(gateway.verbs, OTHER, uri)
        with pytest.raises(BadArguments):
            await read(gateway.verbs, ME, f"{uri}?offset=x")


@pytest.mark.asyncio(loop_scope="class")
class TestPrompts:
    async def prompt(self, gateway: Gateway, name: str, **arguments: Any) -> list[Any]:
        body = await get_prompt(gateway.verbs, ME, name, arguments)
        assert body is not None
        return [message["content"] for message in body["messages"]]

    async def test_seed_002_phase_3_prompts(self, gateway: Gateway) -> None:
        assert [one["name"] for one in list_prompts()] == ["discover", "find_tool", "backend_status"]
        (discover,) = await self.prompt(gateway, "discover")
        assert "wicket://tool/{name}" in discover["text"]
        hits, schema = await self.prompt(gateway, "find_tool", task="add two numbers")
        assert "- calculator.add(a: number, b: number)" in hits["text"]
        assert schema["resource"]["uri"] == "wicket://tool/calculator.add"
        assert decode(schema["resource"]["text"])["inputSchema"]["required"] == ["a", "b"]
        (status,) = await self.prompt(gateway, "backend_status")
        assert "| calculator | ready | 4 | 1 |" in status["text"]
        assert await get_prompt(gateway.verbs, ME, "echo/other", {}) is None

    async def test_a_missing_argument_is_a_clear_error(self, gateway: Gateway) -> None:
        with pytest.raises(BadArguments, match="Required argument 'task' is missing"):
            await get_prompt(gateway.verbs, ME, "find_tool", {})


@pytest.mark.asyncio(loop_scope="class")
class TestCompletion:
    async def completed(self, gateway: Gateway, reference: dict[str, str], name: str, value: str) -> Any:
        params = {"ref": reference, "argument": {"name": name, "value": value}}
        body = await complete(gateway.verbs, ME, params)
        return body and body["completion"]

    async def test_seed_002_task_2_7_completion(self, gateway: Gateway) -> None:
        await gateway.tools()
        tool = {"type": "ref/resource", "uri": "wicket://tool/{tool_name}"}
        assert await self.completed(gateway, tool, "tool_name", "calculator.m") == {
            "values": ["calculator.multiply"],
            "total": 1,
            "hasMore": False,
        }
        backend = {"type": "ref/resource", "uri": "gatemini://backend/{backend_name}"}
        assert (await self.completed(gateway, backend, "backend_name", "cal"))["values"] == ["calculator"]
        assert "calculator" in (await self.completed(gateway, backend, "backend_name", "clculator"))["values"]
        task = {"type": "ref/prompt", "name": "find_tool"}
        assert "Divide two numbers" in (await self.completed(gateway, task, "task", "divide"))["values"]
        assert await self.completed(gateway, {"type": "ref/prompt", "name": "echo/x"}, "a", "") is None


def test_what_begins_so_comes_before_what_contains_it() -> None:
    assert matching("re", ["create", "read", "Restore", "write"]) == ["Restore", "read", "create"]


async def test_a_completion_is_cut_at_a_hundred(open_gateway: OpenGateway) -> None:
    names = [f"server{number:03}" for number in range(120)]
    async with open_gateway({name: {"command": "never-started"} for name in names}) as gateway:
        reference = {"type": "ref/resource", "uri": "wicket://backend/{backend_name}"}
        params = {"ref": reference, "argument": {"name": "backend_name", "value": "server"}}
        body = await complete(gateway.verbs, ME, params)
    assert body is not None
    assert (len(body["completion"]["values"]), body["completion"]["total"], body["completion"]["hasMore"]) == (
        100,
        120,
        True,
    )
