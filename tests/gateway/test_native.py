"""The native vocabulary as an agent meets it: find, describe, call, read on."""

import json
import random
import statistics
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

import pytest

from tests.conftest import CATALOG, OpenGateway, peer, replay
from wicket_mcp.app import Gateway
from wicket_mcp.dialects.base import Menu, ToolCall
from wicket_mcp.dialects.native import NATIVE
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent

TOKENIZER: Any = import_module("rs_bpe").openai.o200k_base()  # has no types


def tokens(value: Any) -> int:
    return TOKENIZER.count(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


async def use(gateway: Gateway, tool: str, principal: Principal = LOCAL, /, **arguments: Any) -> JsonObject:
    result = await NATIVE.call(gateway.verbs, tool, ToolCall(arguments, Silent(principal)))
    assert result is not None
    return result


def text_of(result: JsonObject) -> str:
    return result["content"][0]["text"]


async def test_a_hit_can_be_called_at_once(open_gateway: OpenGateway) -> None:
    async with open_gateway({"time": replay("time"), "git": replay("git")}) as gateway:
        lines = text_of(await use(gateway, "find_tools", query="what is the current time somewhere")).splitlines()
        assert lines[0].startswith("time.get_current_time(timezone: string)")
        assert lines[0].endswith(" - Get current time in a specific timezone")
        result = await use(gateway, "call_tool", name="time.get_current_time", arguments={"timezone": "UTC"})
        assert text_of(result) == '{"timezone": "UTC"}'


async def test_an_empty_query_lists_the_servers(open_gateway: OpenGateway) -> None:
    async with open_gateway({"time": replay("time"), "git": {**replay("git"), "description": "History."}}) as gateway:
        assert text_of(await use(gateway, "find_tools")) == (
            "14 tools. Servers (number of tools):\n- time (2)\n- git (12): History"
        )


async def test_an_empty_query_with_a_server_lists_its_tools(open_gateway: OpenGateway) -> None:
    async with open_gateway({"git": replay("git")}) as gateway:
        assert len(text_of(await use(gateway, "find_tools", server="git")).splitlines()) == 12
        wrong = await use(gateway, "find_tools", query="x", server="gti")
        assert wrong["isError"]
        assert "Did you mean 'git'?" in text_of(wrong)


async def test_a_server_that_fails_is_named_where_it_matters(open_gateway: OpenGateway) -> None:
    servers = {"bad": peer("ExitsAtOnce"), "git": replay("git"), "keyless": {**peer("Echo"), "env": {"A": "${NO_KEY}"}}}
    async with open_gateway(servers) as gateway:
        fits = text_of(await use(gateway, "find_tools", query="commit changes"))
        assert fits.startswith("git.git_commit(")
        assert "unavailable" not in fits
        named = text_of(await use(gateway, "find_tools", query="commit changes with bad"))
        assert named.endswith("\n[unavailable: bad (exited with code 3 before it answered)]")
        nothing = text_of(await use(gateway, "find_tools", query="zxqv wvut"))
        assert nothing.endswith(
            "[unavailable: bad (exited with code 3 before it answered), keyless (NO_KEY is not set)]"
        )


async def test_unknown_names_are_reported_next_to_the_found_ones(open_gateway: OpenGateway) -> None:
    async with open_gateway({"git": replay("git")}) as gateway:
        described = await use(gateway, "describe_tools", names=["git_log", "git_lgo"], detail="signature")
        assert not described["isError"]
        assert text_of(described).startswith("git.git_log(repo_path: string")
        assert "No tool named 'git_lgo'. Did you mean 'git.git_log'" in text_of(described)
        assert (await use(gateway, "describe_tools", names=["nothing"]))["isError"]


async def test_full_detail_holds_the_schema_as_the_upstream_sent_it(open_gateway: OpenGateway) -> None:
    captured = json.loads((CATALOG / "git.json").read_text())["tools"][0]
    async with open_gateway({"git": replay("git")}) as gateway:
        described = json.loads(text_of(await use(gateway, "describe_tools", names=["git_status"])))
    assert described["inputSchema"] == captured["inputSchema"]
    assert described["annotations"] == captured["annotations"]


async def test_wrong_arguments_of_our_own_tools_are_explained_too(open_gateway: OpenGateway) -> None:
    async with open_gateway({"git": replay("git")}) as gateway:
        result = await use(gateway, "call_tool", tool="git_log")
    assert result["isError"]
    assert "missing 'name'" in text_of(result)


async def test_an_upstreams_json_rpc_error_reaches_the_model_whole(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        result = await use(gateway, "call_tool", name="x.refuses")
    assert result["isError"]
    assert text_of(result) == "Server 'x' answered with an error: not today (-32050)"
    assert result["_meta"]["wicket/error"]["error"]["data"] == {"reason": "closed"}


async def test_arguments_of_our_own_tools_forgive(open_gateway: OpenGateway) -> None:
    async with open_gateway({"time": replay("time"), "git": replay("git")}) as gateway:
        listed = text_of(await use(gateway, "find_tools", query=None, server=None, limit=None))
        assert listed.startswith("14 tools. Servers")
        assert len(text_of(await use(gateway, "find_tools", query="commit", limit="2")).splitlines()) == 2
        described = text_of(await use(gateway, "describe_tools", names="git.git_log", detail=None))
        assert json.loads(described)["name"] == "git.git_log"
        script = await use(gateway, "run_script", code="return 5", language=None)
        assert text_of(script) == "5"


async def test_a_tool_that_was_found_may_be_called_by_its_name(open_gateway: OpenGateway) -> None:
    menu = Menu((NATIVE,))
    async with open_gateway({"time": replay("time")}) as gateway:
        call = ToolCall({"timezone": "UTC"}, Silent(LOCAL))
        for name in ("time.get_current_time", "time__get_current_time", "get_current_time"):
            await gateway.tools()
            assert text_of(await menu.call(gateway.verbs, name, call)) == '{"timezone": "UTC"}'
        wrong = await menu.call(gateway.verbs, "time.get_current_time", ToolCall({}, Silent(LOCAL)))
        assert wrong["isError"]
        assert "missing 'timezone'" in text_of(wrong)
        with pytest.raises(UnknownName, match="No tool named 'find_tool'. Did you mean 'find_tools'"):
            await menu.call(gateway.verbs, "find_tool", call)
        with pytest.raises(UnknownName):
            await menu.call(gateway.verbs, "time.get_current_time", ToolCall({}, Silent(Principal("a", frozenset()))))


class TestLargeResults:
    @pytest.fixture
    async def gateway(self, open_gateway: OpenGateway) -> AsyncGenerator[Gateway]:
        async with open_gateway({"x": peer("Echo")}) as gateway:
            yield gateway

    async def stored(self, gateway: Gateway) -> tuple[str, JsonObject]:
        result = await use(gateway, "call_tool", name="x.big", arguments={"rows": 5000})
        return result["_meta"]["wicket/result"]["id"], result

    async def test_it_is_announced_with_shape_and_first_part(self, gateway: Gateway) -> None:
        handle, result = await self.stored(gateway)
        shown = text_of(result)
        assert f"stored as id {handle} for 24 h" in shown
        assert "Shape: {items: 5000 × {id: integer, name: string, odd: boolean}}" in shown
        assert '"name": "row 0"' in shown
        assert tokens(shown) < 2500

    async def test_every_part_can_be_read(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        items = text_of(await use(gateway, "read_result", id=handle, path="items", offset=4998, limit=5))
        assert items == (
            '{"id":4998,"name":"row 4998","odd":false}\n{"id":4999,"name":"row 4999","odd":true}\n'
            "[items 4999-5000 of 5000.]"
        )
        one = text_of(await use(gateway, "read_result", id=handle, path="items[-1].name"))
        assert one.splitlines()[0] == "row 4999"
        names = text_of(await use(gateway, "read_result", id=handle, path="items[*].name", limit=3))
        assert names.splitlines()[:3] == ['"row 0"', '"row 1"', '"row 2"']
        assert "Read on with offset=3" in names
        found = text_of(await use(gateway, "read_result", id=handle, grep=r'"row 123\d"'))
        assert len(found.splitlines()) == 11

    async def test_reading_on_by_offset_gives_everything_once(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        seen: list[int] = []
        while len(seen) < 5000:
            page = text_of(await use(gateway, "read_result", id=handle, path="items", offset=len(seen), limit=900))
            seen += [json.loads(line)["id"] for line in page.splitlines()[:-1]]
        assert seen == list(range(5000))

    async def test_a_part_can_be_an_argument_of_another_call(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        reference = {"$result": handle, "path": "items[41].name"}
        result = await use(gateway, "call_tool", name="x.echo", arguments={"message": reference})
        assert text_of(result) == "row 41"

    async def test_a_result_given_for_text_is_its_text(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        result = await use(gateway, "call_tool", name="x.echo", arguments={"message": {"$result": handle}})
        again = await use(gateway, "read_result", id=result["_meta"]["wicket/result"]["id"], offset=None, limit=None)
        assert "row 0" in text_of(again)
        reference = {"$result": handle, "path": "items[41]"}
        row = await use(gateway, "call_tool", name="x.echo", arguments={"message": reference})
        assert json.loads(text_of(row)) == {"id": 41, "name": "row 41", "odd": True}

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"path": "rows"}, "there is no 'rows' at the top, which is an object with the keys items"),
            ({"path": "items[9999]"}, "has 5000 items, so there is no [9999]"),
            ({"path": "items[0].name.first"}, "there is no 'first' at items[0].name, which is a str"),
            ({"path": "items[[0"}, "cannot be read at"),
            ({"grep": "(unclosed"}, "cannot be used"),
            ({"id": "not-a-handle"}, "There is no stored result 'not-a-handle'. It may have expired"),
        ],
    )
    async def test_a_miss_says_what_is_there(self, gateway: Gateway, arguments: JsonObject, problem: str) -> None:
        handle, _ = await self.stored(gateway)
        result = await use(gateway, "read_result", **{"id": handle, **arguments})
        assert result["isError"]
        assert problem in text_of(result)

    async def test_another_principal_cannot_read_it_or_pass_it_on(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        other = Principal("somebody else", LOCAL.scopes)
        assert "no stored result" in text_of(await use(gateway, "read_result", other, id=handle))
        passed = await use(gateway, "call_tool", other, name="x.echo", arguments={"message": {"$result": handle}})
        assert "no stored result" in text_of(passed)

    async def test_half_a_character_in_a_pattern_finds_nothing(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        assert "No lines" in text_of(await use(gateway, "read_result", id=handle, grep="row \ud800"))

    async def test_a_pattern_that_would_backtrack_for_ever_ends(self, gateway: Gateway) -> None:
        handle, _ = await self.stored(gateway)
        result = await use(gateway, "read_result", id=handle, grep="(a|a?)+" * 10 + "$")
        assert not result["isError"]


class TestWithEveryCatalogue:
    """All 79 captured catalogues at once: what an agent pays."""

    @pytest.fixture
    async def gateway(self, open_gateway: OpenGateway) -> AsyncGenerator[Gateway]:
        names = sorted(path.stem for path in CATALOG.glob("*.json"))
        async with open_gateway({name: {**replay(name), "connect_timeout": 60} for name in names}) as gateway:
            yield gateway

    async def test_the_menu_stays_small(self, gateway: Gateway) -> None:
        assert len(await gateway.tools()) == 1966
        menu = await NATIVE.list(gateway.verbs, LOCAL)
        told = await gateway.instructions()
        assert tokens(menu) <= 600
        assert tokens(told) <= 400
        assert tokens(menu) + tokens(told) <= 1000
        assert await gateway.instructions() == told

        rng = random.Random(7)
        costs: list[int] = []
        for tool in rng.sample(gateway.catalogue.now.tools, 60):
            query = tool.description[:80] or tool.name
            costs.append(tokens(text_of(await use(gateway, "find_tools", query=query, limit=5))))
        assert statistics.median(costs) <= 500


async def test_a_large_value_of_a_script_is_stored_and_read_by_its_id(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, results={"large": 100}) as gateway:
        small = await use(gateway, "run_script", code="return ('x'):rep(300)", language="lua")
        assert text_of(small) == "x" * 300
        large = await use(gateway, "run_script", code="return ('x'):rep(99) .. ('\\ny'):rep(400)", language="lua")
        stored = large["_meta"]["wicket/result"]
        assert text_of(large).startswith("[Large result of wicket.script: about 224 tokens")
        assert text_of(await use(gateway, "read_result", id=stored["id"], offset=400)) == "y\n[lines 401-401 of 401.]"
