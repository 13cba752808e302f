"""Servers that mean harm: each costs itself, as a typed error within its deadline."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.conftest import OpenGateway, peer, replay
from tests.dialects.seeds import Speaker
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_faults import echo
from tests.reliability.callers import Person, person
from tests.reliability.hostile import hostile
from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.errors import ProtocolViolation
from wicket_mcp.model import LOCAL
from wicket_mcp.request import tool_call
from wicket_mcp.schema.checker import compile_schema
from wicket_mcp.store.model import AuditQuery
from wicket_mcp.upstream import throttle
from wicket_mcp.upstream.throttle import BURST, CUT_AFTER, RATE, SAID_A_MINUTE, Throttle


async def call(gateway: Gateway, caller: Person, tool: str, **arguments: object) -> str:
    result = await gateway.verbs.call(tool_call(tool, arguments, caller))
    return result.body["content"][0]["text"]


@pytest.mark.promise("V8", "A message of a server that names no call never reaches another principal.")
async def test_v8_words_without_a_call_reach_nobody_once_two_principals_were_served(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("TalksLater")}) as gateway:
        first, second = person("first"), person("second")
        assert "accept" in await call(gateway, first, "x.slow"), "alone, it is known who is meant"
        assert len(first.heard) == len(first.asked) == 1
        refused = await call(gateway, second, "x.slow")
        assert "has served several users" in refused
        assert second.heard == second.asked == []
        assert len(first.asked) == 1
        kept = await gateway.store.find_calls(AuditQuery(method="log"))
        assert [(record.principal, record.detail) for record in kept] == [
            ("server x", "error: row of the first principal")
        ], "it is for the owner's audit"


async def test_words_about_somebody_who_cannot_be_asked_reach_nobody_else(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("TalksLater")}) as gateway:
        await gateway.call("x.echo", {"message": "from the owner, who hears nothing"})
        second = person("second")
        assert "has served several users" in await call(gateway, second, "x.slow")
        assert second.heard == second.asked == []


@pytest.mark.promise("V8", "A server with a connection for each client may ask that client.")
async def test_v8_a_connection_of_its_own_may_ask_its_client(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("TalksLater", isolation="session")}) as gateway:
        first, second = person("first"), person("second")
        assert "accept" in await call(gateway, first, "x.slow")
        assert "accept" in await call(gateway, second, "x.slow")
        assert len(first.asked) == len(second.asked) == 1


@pytest.mark.promise("V17", "Only http and https pages are shown, and the server that asks is named.")
@pytest.mark.promise("T15", "A question that opens an address names the server that asks.")
async def test_t15_v17_only_pages_of_the_web_are_asked_to_be_visited(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("OpensPages")}) as gateway:
        caller = person("somebody")
        for address in ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "HTTP//x", "", " https://x"):
            assert "does not begin with http" in await call(gateway, caller, "x.slow", url=address)
        assert caller.asked == []
        await call(gateway, caller, "x.slow", url="https://pages.example/sign-in")
        assert [asked["message"] for asked in caller.asked] == ["Server 'x' asks: Please sign in."]


@pytest.mark.promise("V21", "An answer of any depth gives a result or one typed error, at once.")
@pytest.mark.parametrize(("levels", "readable"), [(100, True), (400, False), (950, False), (20_000, False)])
async def test_v21_an_answer_of_any_depth_costs_its_call_at_most(
    open_gateway: OpenGateway, levels: int, readable: bool
) -> None:
    async with open_gateway({"x": hostile("Deep")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            arguments = {"name": "x.deep", "arguments": {"levels": levels}}
            status, body = await client.modern("tools/call", {"name": "call_tool", "arguments": arguments})
        assert status == 200
        text = str(body["result"]["content"])
        assert ("cannot be read" not in text) is readable
        assert "defect" not in text
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("F16", "A hundred thousand tools or endless megabytes are cut, with a note; the rest works.")
@pytest.mark.promise("T22", "A list without limit is cut, and does not affect other servers.")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ManyTools", "more than 5000 entries"),
        ("EndlessBytes", "more than 32 MiB"),
        ("EndlessWords", "its description was cut at 16384 characters"),
        ("EndlessWords", "its definition is larger than 512 KiB"),
        ("StrangeNames", "it has no name"),
        ("StrangeNames", "longer than 256 characters"),
    ],
)
@pytest.mark.promise("D6", "A list is cut at a number of bytes, with a note.")
async def test_f16_t22_d6_a_list_without_measure_is_cut_and_the_cut_is_said(
    open_gateway: OpenGateway, kind: str, said: str
) -> None:
    async with open_gateway({"x": hostile(kind)}) as gateway:
        tools = await gateway.tools()
        assert len(tools) <= 5000
        assert max(len(encode(tool.definition)) for tool in tools) < 128 * 1024
        assert any(said in entry.reason for entry in gateway.catalogue.now.listings["x"].rejected)
        assert await echo(gateway, "x") == "still here"


async def test_only_what_is_left_out_is_said_to_be(open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture) -> None:
    async with open_gateway({"x": hostile("EndlessWords")}) as gateway:
        names = {tool.name for tool in await gateway.tools()}
    left_out = {line.split("'")[3] for line in caplog.messages if "left out" in line}
    assert left_out == {"bloated"}
    assert any("its description was cut" in line for line in caplog.messages)
    assert not names & left_out


@pytest.mark.promise(
    "F16", "A tool whose definition is nested too deeply is left out, with the reason; the rest works."
)
@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("levels", [110, 130, 5000])
async def test_f16_a_tool_that_is_nested_too_deeply_costs_itself_only(
    open_gateway: OpenGateway, levels: int, padding: int
) -> None:
    server = hostile("DeepTools", env={"LEVELS": str(levels), "PADDING": str(padding)})
    async with open_gateway({"x": server}) as gateway:
        assert sorted(tool.name for tool in await gateway.tools()) == ["echo", "long"]
        rejected = {entry.name: entry.reason for entry in gateway.catalogue.now.listings["x"].rejected}
        assert rejected["in"] == rejected["out"] == "left out: its definition is nested more than 100 levels deep"
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("T13", "If names look alike, an exact name always means its own tool.")
async def test_t13_names_that_look_alike_stay_apart(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("StrangeNames")}) as gateway:
        tools = await gateway.tools()
        wire = [name for name, tool in gateway.catalogue.now.wire.items() if tool.server == "x"]
        assert len(wire) == len(set(wire)) == len(tools)
        assert all(name.isascii() for name in wire)
        assert (await gateway.catalogue.lookup.resolve("x.echo")).name == "echo"


class Counted(list[int]):
    """A list that counts how often it is walked."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.promise("V4", "A circular schema does not make Wicket check long lists again and again.")
@pytest.mark.promise("T24", "Checking arguments takes a limited number of steps with any schema.")
def test_t24_v4_a_circular_schema_does_not_have_a_long_list_walked_at_every_step() -> None:
    schema = {
        "type": "object",
        "properties": {"ids": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "array"}]}, "b": {"$ref": "#/$defs/a"}},
    }
    checker = compile_schema(schema)
    ids = Counted(range(4000))
    assert checker.errors({"ids": ids}) == []
    assert ids.walks < 10


@pytest.mark.promise("V26", "A server that sends endless messages is read more slowly, and cut off after a minute.")
def test_v26_a_flood_is_slowed_and_then_cut() -> None:
    account = Throttle(now=0.0)
    assert account.spend(int(BURST), now=0.0) == 0.0, "a burst passes"
    now = 0.0
    while not account.exceeded:
        pause = account.spend(int(RATE), now)
        assert account.slowed
        assert 0.0 < pause <= 2.0
        now += pause
    assert CUT_AFTER < now < 2 * CUT_AFTER
    calm = Throttle(now=0.0)
    for second in range(1000):
        assert calm.spend(int(RATE), now=float(second)) == 0.0
    assert not calm.slowed


@pytest.mark.promise("V26", "Empty lines, stray answers, huge batches and endless stderr are slowed and cut off too.")
@pytest.mark.parametrize("chatter", ["empty lines", "numbers", "answers to nobody", "batches", "stderr"])
async def test_v26_whatever_it_floods_with_it_is_slowed_and_cut(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, chatter: str
) -> None:
    monkeypatch.setattr(throttle, "CUT_AFTER", 0.3)
    async with open_gateway({"x": hostile("FloodsWith", env={"CHATTER": chatter})}) as gateway:
        with pytest.raises(ProtocolViolation, match="floods"):
            await gateway.call("x.slow")
        [status] = await gateway.verbs.servers(LOCAL)
        assert "floods" in status.problem
        assert await echo(gateway, "x") == "still here"
    assert "it is read more slowly" in caplog.text


@pytest.mark.promise("T22", "What a server declares of itself is limited, like the names of all that it offers.")
async def test_t22_what_a_server_declares_and_names_is_bounded(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("Boasts"), "good": peer("Echo")}) as gateway, serve_http(gateway) as address:
        await gateway.tools()
        listing = gateway.catalogue.now.listings["x"]
        assert set(listing.capabilities) == {"tools", "resources", "prompts"}
        assert listing.server_info == {"name": "n" * 200, "version": ""}
        assert len(listing.instructions) < 17_000
        assert [entry["name"] for entry in listing.prompts] == ["fine"]
        assert [entry["uri"] for entry in listing.resources] == ["x:fine"]
        assert listing.templates == ()
        assert [entry.name for entry in listing.rejected if len(entry.name) > 80] == []
        async with raw_client(address) as client:
            _, body = await client.modern("server/discover", {})
        assert len(encode(body)) < 20_000
        assert await gateway.call("x.odd") == {"content": [{"type": "text", "text": "odd"}]}


async def test_the_last_words_of_a_server_that_is_gone_are_read_whole(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("LastWords")}) as gateway:
        answer = await gateway.call("x.slow")
        assert len(answer["content"][0]["text"]) > 1000
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("V26", "Messages of a server for no client are logged about sixty times a minute at most.")
async def test_v26_what_is_said_to_nobody_fills_no_log(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "wicket_mcp.upstream.unattributed")
    async with open_gateway({"x": hostile("TalksToNobody")}) as gateway:
        for _ in range(3):
            assert await echo(gateway, "x") == "still here"
        await gateway.call("x.pid")  # answered after all that was said before
    said = [record for record in caplog.records if "says (info)" in record.getMessage()]
    assert len(said) == SAID_A_MINUTE


@pytest.mark.promise("V7", "Secrets in log messages of servers are masked, for clients, in the log and in the audit.")
async def test_v7_what_servers_say_in_messages_has_no_secret(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "canary-" + "z" * 400
    monkeypatch.setenv("SECRET_OF_MINE", f"first canary line\n{secret}")
    caplog.set_level("INFO", "wicket_mcp.upstream.unattributed")
    server = hostile("TalksToNobody")
    server["env"] = {**server.get("env", {}), "SAYS": "${SECRET_OF_MINE}"}
    async with open_gateway({"x": server}) as gateway:
        client = person("ann")
        assert await call(gateway, client, "x.echo", message="hi") == "hi"
        await gateway.call("x.pid")
        records = await gateway.store.find_calls(AuditQuery(server="x", limit=99))
    assert "info: ***" in {record.detail for record in records}
    assert "says (info): ***" in caplog.text
    assert {"text": "***"} in [params["data"] for params in client.heard]
    assert "canary" not in caplog.text + str(records) + str(client.heard)


@pytest.mark.promise("V26", "The status of servers names a server that is slowed down or cut off, with the reason.")
@pytest.mark.promise("D15", "A server that floods is slowed.")
async def test_v26_d15_a_flood_is_told_in_the_status(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "CUT_AFTER", 1.0)
    async with open_gateway({"x": peer("FloodsProgress")}) as gateway:
        await gateway.tools()
        talk = tool_call("x.slow", {}, person("somebody"), meta={"progressToken": "p"})
        calling = asyncio.ensure_future(gateway.verbs.call(talk))
        said: list[str] = []
        while not calling.done():
            [status] = await gateway.verbs.servers(LOCAL)
            if status.problem and status.problem not in said:
                said.append(status.problem)
            await asyncio.sleep(0)
        with pytest.raises(ProtocolViolation, match="floods Wicket with messages"):
            await calling
        assert "it is read more slowly" in said[0]
        [status] = await gateway.verbs.servers(LOCAL)
        assert "floods Wicket with messages" in status.problem
        assert await echo(gateway, "x") == "still here"


@pytest.mark.promise("F16", "A long list that is being indexed delays no search of other servers' tools.")
async def test_f16_a_long_list_that_is_being_indexed_delays_no_search_of_others(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": hostile("ManyTools"), "git": replay("git")}) as gateway:
        await gateway.tools()
        gateway.catalogue.answer_within(0.0)
        answer = await gateway.verbs.search("show the commit log")
        assert answer.hits[0].tool.server == "git"
        assert answer.gap == "Not searched: x (still being indexed; ask again in a moment)."
        assert "[Not searched: x" in await Speaker(gateway, "native").text("find_tools", query="show the commit log")
        await gateway.finder.finish_indexing()
        answer = await gateway.verbs.search("t4711")
        assert answer.hits[0].tool.key == "x.t4711"
        assert "being indexed" not in answer.gap
