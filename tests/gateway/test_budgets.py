"""What one request may ask for, in every dialect; and that what takes long does not keep others waiting."""

import time
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

import pytest

from tests.conftest import CATALOG, OpenGateway, peer, replay
from tests.gateway.serving import Command
from wicket_mcp.app import Gateway
from wicket_mcp.budget import MAX_NAME, MAX_QUERY, MAX_REFERENCES, MAX_SUBSTITUTED
from wicket_mcp.codec import encode
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.factory import NAMES
from wicket_mcp.errors import BadArguments, UnknownName
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent, as_object
from wicket_mcp.request import tool_call
from wicket_mcp.results.handles import Handles
from wicket_mcp.scripting import Script
from wicket_mcp.store.model import StoredResult
from wicket_mcp.surface.stdio import MAX_MESSAGE
from wicket_mcp.tasks import Tasks

FREE = {"code", "script", "arguments", "args", "sampleArgs", "manual_call_template", "env", "headers"}
WORDS = {"query", "q", "task_description", "intent", "context", "description", "endpoint", "command", "repository_url"}


async def use(gateway: Gateway, dialect: str, tool: str, /, **arguments: Any) -> JsonObject:
    menu = gateway.protocol(dialect).menu
    return await menu.call(gateway.verbs, tool, ToolCall(arguments, Silent(LOCAL)))


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.promise("T23", "Every text and every list that Wicket's tools accept is limited, in every dialect.")
@pytest.mark.promise("D2", "A query has at most 2,000 characters, in every dialect.")
async def test_t23_d2_every_argument_of_every_dialect_is_bounded(open_gateway: OpenGateway, dialect: str) -> None:
    checked: list[str] = []
    async with open_gateway({}) as gateway:
        for tool in await gateway.protocol(dialect).menu.list(gateway.verbs):
            for name, schema in as_object(tool["inputSchema"].get("properties")).items():
                kinds = schema.get("type", "")
                if name in FREE or not ({"string", "array"} & {kinds, *kinds} or "anyOf" in schema):
                    continue
                most = MAX_QUERY if name in WORDS else 1000 if name in ("path", "grep") else MAX_NAME
                values: list[Any] = ["x" * (most + 1)] if kinds != "array" else [["x"] * 51, ["x" * (MAX_NAME + 1)]]
                for value in values:
                    answer = await use(gateway, dialect, tool["name"], **{name: value})
                    assert answer["isError"], (tool["name"], name)
                    assert "at most" in answer["content"][0]["text"], answer
                    checked.append(name)
    assert checked or dialect == "flat"


def nested(levels: int) -> JsonObject:
    return {"a": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.promise("T23", "Arguments of Wicket's tools that are too large or too deep to be checked are refused.")
async def test_t23_arguments_that_cannot_be_checked_are_refused(open_gateway: OpenGateway, dialect: str) -> None:
    async with open_gateway({}) as gateway:
        for tool in await gateway.protocol(dialect).menu.list(gateway.verbs):
            properties = as_object(tool["inputSchema"].get("properties"))
            others = {name: "x" for name, schema in properties.items() if schema.get("type") == "string"}
            values: list[Any] = [nested(100), ["y"] * 150_000, [[]] * 150_000]
            for name in properties.keys() - {"arguments", "args", "sampleArgs"}:
                for value in values:
                    answer = await use(gateway, dialect, tool["name"], **{**others, name: value})
                    assert answer["isError"], (tool["name"], name)


@pytest.fixture
async def gateway(open_gateway: OpenGateway) -> AsyncGenerator[Gateway]:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        await gateway.tools()
        yield gateway


async def store(gateway: Gateway, body: bytes) -> str:
    """The handle of a stored result."""
    expires_at = time.time() + 60
    row, handle = Handles(gateway.ring).make(LOCAL, expires_at)
    await gateway.store.save_result(StoredResult(row, LOCAL.name, "x.big", body, expires_at), 2**30)
    return handle


def call(arguments: JsonObject) -> Any:
    return tool_call("x.echo", arguments, Silent(LOCAL))


async def test_v2_seventeen_references_are_too_many(gateway: Gateway) -> None:
    handle = await store(gateway, encode({"content": [{"type": "text", "text": "small"}]}))
    fits = [{"$result": handle}] * MAX_REFERENCES
    with pytest.raises(BadArguments, match="'message' should be string"):  # all are filled in, then it is checked
        await gateway.verbs.call(call({"message": fits}))
    with pytest.raises(BadArguments, match=f"{MAX_REFERENCES} references to results at most, not 17"):
        await gateway.verbs.call(call({"message": [*fits, {"$result": handle}]}))


@pytest.mark.promise("V2", "References beyond 16, or to over 4 MiB together, are refused before a result is decoded.")
@pytest.mark.promise("D3", "References are refused by the stored length of what they refer to.")
async def test_v2_d3_what_is_referred_to_is_refused_by_its_stored_length_before_it_is_decoded(gateway: Gateway) -> None:
    handle = await store(gateway, b"this is not JSON" * (MAX_SUBSTITUTED // 32 + 1))  # decoding it would fail
    twice = {"message": [{"$result": handle}, {"deep": [{"$result": handle}]}]}
    with pytest.raises(BadArguments, match="4 MiB into a call at most"):
        await gateway.verbs.call(call(twice))
    with pytest.raises(ValueError, match="JSON is malformed"):
        await gateway.verbs.call(call({"message": {"$result": handle}}))


async def test_v2_parts_of_a_large_result_count_by_their_own_size(gateway: Gateway) -> None:
    rows = [{"id": "x" * 1000} for _ in range(6000)]
    handle = await store(gateway, encode({"content": [], "structuredContent": {"rows": rows}}))
    first = {"$result": handle, "path": "rows[0].id"}
    answer = await gateway.verbs.call(call({"message": first}))
    assert answer.body["content"][0]["text"] == "x" * 1000
    with pytest.raises(BadArguments, match="4 MiB into a call at most"):
        await gateway.verbs.call(call({"message": [{"$result": handle, "path": "rows"}]}))


async def test_v2_nobody_refers_to_the_result_of_another(gateway: Gateway) -> None:
    handle = await store(gateway, encode({"content": [{"type": "text", "text": "mine"}]}))
    first = await gateway.verbs.value(handle, LOCAL)
    assert first == "mine"
    other = Principal("other", LOCAL.scopes)
    with pytest.raises(Exception, match="no stored result"):  # also while it is still in memory for its owner
        await gateway.verbs.value(handle, other)


async def test_v5_paths_and_patterns_are_bounded_whoever_asks(gateway: Gateway) -> None:
    handle = await store(gateway, encode({"content": [{"type": "text", "text": "x"}]}))
    with pytest.raises(BadArguments, match="A path may have 1,000 characters at most"):
        await gateway.verbs.read(handle, LOCAL, path="a" * 1001)
    with pytest.raises(BadArguments, match="A pattern may have 1,000 characters at most"):
        await gateway.verbs.read(handle, LOCAL, grep="a" * 1001)
    with pytest.raises(BadArguments, match="500 characters at most"):
        await gateway.verbs.resolve("x." + "y" * 500, LOCAL)
    with pytest.raises(BadArguments, match="2,000 characters at most, not 1,000,000"):
        await gateway.search("word " * 200_000)


SCRIPTS = {
    "a query": ("return tools.search(('x'):rep(2001))", "2,000 characters at most"),
    "names": ("local n = {} for i = 1, 51 do n[i] = 'x.echo' end return tools.describe(n)", "50 items at most, not 51"),
    "a name": ("return tools.call(('a.'):rep(300), {})", "500 characters at most, not 600"),
    "a result": ("return results.get('HANDLE')", "2,097,152 are accepted. Take a part of it by path"),
}


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_v5_a_script_has_the_same_bounds(gateway: Gateway, kind: str) -> None:
    rows: list[list[int]] = [[] for _ in range(1_000_000)]
    handle = await store(gateway, encode({"content": [], "structuredContent": {"rows": rows}}))
    source, words = SCRIPTS[kind]
    outcome = await gateway.verbs.run(Script(source.replace("HANDLE", handle), "lua"), Silent(LOCAL))
    assert outcome.problem is not None
    assert words in outcome.problem.message, outcome.problem


async def answered_meanwhile(gateway: Gateway, work: Awaitable[Any]) -> tuple[int, Any]:
    """How many small requests are answered, one after the other, until `work` has ended; and what it gave."""

    async def wait() -> Any:
        return await work

    running = Tasks().start(wait(), "work")
    count = 0
    while not running.done():
        await use(gateway, "native", "call_tool", name="x.echo", arguments={"message": "hi"})
        count += 1
    return count, await running


class TestV5:
    """Over the 1,966 tools of the published servers."""

    @pytest.fixture
    async def many(self, open_gateway: OpenGateway) -> AsyncGenerator[Gateway]:
        names = [path.stem for path in sorted(CATALOG.glob("*.json"), key=lambda path: -path.stat().st_size)[:6]]
        async with open_gateway({"x": peer("Echo"), **{name: replay(name) for name in names}}) as gateway:
            while len(gateway.catalogue.now.listings) <= len(names):  # who starts slowly is not waited for at once
                await gateway.tools()
            yield gateway

    @pytest.mark.promise("V5", "A script with 200 unknown names, and every search, let other requests run in between.")
    async def test_v5_a_script_of_unknown_names_leaves_others_their_turn(self, many: Gateway) -> None:
        source = "for i = 1, 200 do pcall(tools.call, 'create_list_get_search_issues_' .. i, {}) end return 1"
        count, outcome = await answered_meanwhile(many, many.verbs.run(Script(source, "lua"), Silent(LOCAL)))
        assert outcome.value == 1
        assert count >= 20

    async def test_v5_fifty_unknown_names_at_once_leave_others_their_turn(self, many: Gateway) -> None:
        names = [f"create_list_get_search_issues_{number}" for number in range(50)]
        count, described = await answered_meanwhile(many, many.verbs.describe(names, LOCAL))
        assert all(isinstance(problem, UnknownName) for problem in described.problems)
        assert count >= 5

    async def test_v5_reading_a_large_result_many_times_decodes_it_once(self, many: Gateway) -> None:
        body = encode({"content": [], "structuredContent": {"rows": [{"n": n} for n in range(100_000)]}})
        handle = await store(many, body)
        first = await many.verbs.value(handle, LOCAL, "rows[5]")
        assert await many.verbs.value(handle, LOCAL, "rows[5]") is first

    async def test_v5_reads_of_a_large_result_leave_others_their_turn(self, many: Gateway) -> None:
        handles = [
            await store(many, encode({"content": [{"type": "text", "text": "line\n" * 200_000}]})) for _ in range(4)
        ]

        async def read() -> None:
            for handle in handles * 5:
                await many.verbs.read(handle, LOCAL, grep="nothing")

        count, _ = await answered_meanwhile(many, read())
        assert count >= 5


@pytest.mark.promise("V21", "A message over 128 levels deep, or not UTF-8, is a parse error; the session continues.")
@pytest.mark.promise("D19", "A message over the limit over stdio is a parse error.")
async def test_v21_d19_stdio_answers_a_parse_error_and_goes_on(tmp_path: Any) -> None:
    command = await Command.start(tmp_path, {})
    await command.initialize()
    for bad in (
        b"[" * 1000 + b"]" * 1000,
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b'{"x":[' + b"[]," * 210_000 + b"1]}",  # more values than a message may have
        b'{"x":"' + b"x" * MAX_MESSAGE + b'"}',
        b'{"x":"' + b"x" * 1_000_000,
    ):
        command.send(bad)
        assert (await command.receive())["error"]["code"] == -32700
    assert (await command.ask("ping"))["result"] == {}
    assert await command.finish() == 0
