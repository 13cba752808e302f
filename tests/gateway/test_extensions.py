"""Extensions pass: what a client declares reaches each server with its own request; what servers declare is told."""

import asyncio
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS, ROOT, OpenGateway, Server, peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Command, Raw, raw_client, serve_http
from tests.peers.counting_servers import InModernEra
from tests.peers.http_faults import JSON, Received, send
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.extensions import APP_MARK, APP_TYPE, SKILLS, UI
from wicket_mcp.model import Silent

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TALLY = "com.example/tally"
ERAS = ("legacy", "modern")


def extended(era: str, name: str) -> Server:
    return {"command": sys.executable, "args": [str(PEERS / "extended_server.py"), era, name]}


@asynccontextmanager
async def house(open_gateway: OpenGateway, era: str, *dialects: str, **options: Any) -> AsyncGenerator[Raw]:
    """Two servers of one era behind a gateway, and a client."""
    servers = {name: extended(era, name) for name in ("one", "two")}
    async with (
        open_gateway(servers, **options) as gateway,
        serve_http(gateway, *dialects) as address,
        raw_client(address) as client,
    ):
        yield client


async def ask(client: Raw, method: str, params: dict[str, Any], extensions: dict[str, Any] | None = None) -> Any:
    """A modern request of a client that declares these extensions; its result, or its error."""
    declared = {CAPABILITIES: {"extensions": extensions} if extensions is not None else {}}
    meta = {**META, **declared, **params.get("_meta", {})}
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    for key in ("name", "uri"):
        if key in params:
            routing["Mcp-Name"] = params[key]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    _, _, body = await client.post(message, routing)
    return body.get("result", body.get("error"))


@shows("any", "declared by a client, passed to servers", clients="modern", servers="modern")
async def test_what_a_client_declares_reaches_a_modern_server_with_that_request_alone(
    open_gateway: OpenGateway,
) -> None:
    async with house(open_gateway, "modern", "flat") as client:
        call = {"name": "one__seen", "arguments": {}, "_meta": {"com.example/mark": {"kept": True}}}
        with_it = await ask(client, "tools/call", call, {TALLY: {"depth": 3}, UI: {"mimeTypes": ["x"]}})
        without = await ask(client, "tools/call", call)
        meta = with_it["structuredContent"]["meta"]
        assert meta[CAPABILITIES] == {"extensions": {TALLY: {"depth": 3}, UI: {"mimeTypes": ["x"]}}}
        assert meta["com.example/mark"] == {"kept": True}
        assert without["structuredContent"]["meta"][CAPABILITIES] == {}


@shows("any", "declared by a client, passed to servers", clients="legacy", servers="modern")
async def test_what_a_legacy_client_declared_for_its_session_reaches_a_modern_server(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern", "flat") as client:
        declared: dict[str, Any] = {"extensions": {TALLY: {"depth": 4}}, "tasks": {"requests": {}}}
        hello: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": declared,
            "clientInfo": {"name": "t", "version": "1"},
        }
        _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        call: dict[str, Any] = {"name": "one__seen", "arguments": {}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        _, _, body = await client.post(message, {"Mcp-Session-Id": headers["Mcp-Session-Id"]})
        meta = body["result"]["structuredContent"]["meta"]
        assert meta[CAPABILITIES] == {"extensions": {TALLY: {"depth": 4}}}


@shows("any", "trace context, if Wicket exports no traces", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_the_context_of_a_trace_passes_untouched(open_gateway: OpenGateway, era: str) -> None:
    context = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "vendor=1", "baggage": "user=ann,team=x"}
    async with house(open_gateway, era, "native", "flat") as client:
        calls: dict[str, dict[str, Any]] = {"one__seen": {}, "call_tool": {"name": "one.seen", "arguments": {}}}
        for name, arguments in calls.items():
            call = {"name": name, "arguments": arguments, "_meta": context}
            meta = (await ask(client, "tools/call", call))["structuredContent"]["meta"]
            assert {key: meta[key] for key in context} == context


@shows("any", "declared by servers, passed to clients", clients="both", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_the_union_of_the_servers_extensions_and_ours_is_told(open_gateway: OpenGateway, era: str) -> None:
    async with house(open_gateway, era) as client:
        await ask(client, "resources/list", {})  # every server has been seen
        modern = await ask(client, "server/discover", {})
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        _, _, body = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        for capabilities in (modern["capabilities"], body["result"]["capabilities"]):
            assert capabilities["extensions"][TALLY] == {"by": "one"}
            assert capabilities["extensions"][UI] == {"mimeTypes": ["text/html;profile=mcp-app"]}


@shows("any", "methods", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_a_method_of_an_unknown_extension_goes_to_the_server_it_names(
    open_gateway: OpenGateway, era: str
) -> None:
    async with house(open_gateway, era) as client:
        await ask(client, "resources/list", {})
        asked = {"name": "two.seen", "amount": {"deep": [1, 2]}, "_meta": {"com.example/mark": 1}}
        by_tool = await ask(client, "com.example/tally/add", asked, {TALLY: {}})
        assert (by_tool["server"], by_tool["method"]) == ("two", "com.example/tally/add")
        assert by_tool["params"]["name"] == "seen"
        assert by_tool["params"]["amount"] == {"deep": [1, 2]}
        assert by_tool["params"]["_meta"]["com.example/mark"] == 1
        assert by_tool["vendor"] == {"kept": 1}
        by_resource = await ask(client, "com.example/tally/of", {"uri": "ui://one/board/main.html"}, {TALLY: {}})
        assert (by_resource["server"], by_resource["params"]["uri"]) == ("one", "ui://board/main.html")
        links = [{"uri": uri} for uri in ("https://example.com/a", "urn:isbn:1", "ui://board/main.html", "x")]
        linked = await ask(client, "com.example/tally/add", {"name": "two.seen", "deep": {"links": links}}, {TALLY: {}})
        assert linked["params"]["deep"]["links"] == links
        nobody = await ask(client, "com.example/tally/add", {}, {TALLY: {}})
        assert nobody["code"] == -32601


@shows("any", "notifications", clients="both", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_a_notification_of_an_unknown_extension_goes_to_the_server_it_names(
    open_gateway: OpenGateway, era: str
) -> None:
    async with house(open_gateway, era, "flat") as client:
        await ask(client, "resources/list", {})
        params = {"name": "two.seen", "amount": {"deep": [1]}, "_meta": {**META, "com.example/mark": 1}}
        for method in ("com.example/tally/told", "notifications/com.example/told"):
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            status, _, _ = await client.post(message, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method})
            assert status == 202
        heard: dict[str, Any] = {}
        for server in ("one", "two"):
            seen = await ask(client, "tools/call", {"name": f"{server}__seen", "arguments": {}})
            heard[server] = seen["structuredContent"]["notified"]
        assert heard["one"] == []
        assert [each["method"] for each in heard["two"]] == ["com.example/tally/told", "notifications/com.example/told"]
        for each in heard["two"]:
            assert (each["params"]["name"], each["params"]["amount"]) == ("seen", {"deep": [1]})
            assert each["params"]["_meta"]["com.example/mark"] == 1


@shows("any", "notifications, over pipes", clients="legacy", servers="legacy")
async def test_notifications_pass_both_ways_over_pipes(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"one": extended("legacy", "one")}, "--dialect", "flat")
    await command.initialize()
    await command.ask("resources/list")
    command.send({"jsonrpc": "2.0", "method": "com.example/told", "params": {"vendor": {"kept": 1}}})
    while not (notified := (await command.call("one__seen"))["structuredContent"]["notified"]):
        pass  # it is on its way; the test's own time limit is the deadline
    assert notified == [{"method": "com.example/told", "params": {"vendor": {"kept": 1}}}]
    call = {"name": "one__seen", "arguments": {"tick": 1}}
    command.send({"jsonrpc": "2.0", "id": "t", "method": "tools/call", "params": call})
    told = await command.receive()
    assert (told["method"], told["params"]) == ("notifications/com.example/tick", {"deep": {"kept": 1}})
    assert await command.finish() == 0


async def test_a_gateway_whose_servers_have_no_unknown_extension_knows_no_other_method(
    open_gateway: OpenGateway,
) -> None:
    async with (
        open_gateway({"x": peer("Echo")}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        assert (await ask(client, "com.example/tally/add", {"name": "x.echo"}))["code"] == -32601
        assert (await ask(client, "sampling/createMessage", {}))["code"] == -32601


# Apps


@shows("ui", "tools with an interface beside the menu", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_tools_with_an_interface_are_listed_beside_the_menu_to_hosts_alone(
    open_gateway: OpenGateway, era: str
) -> None:
    async with house(open_gateway, era) as client:
        plain = [tool["name"] for tool in (await ask(client, "tools/list", {}))["tools"]]
        tools = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}, {UI: {}}))["tools"]}
        assert plain == ["find_tools", "describe_tools", "call_tool", "run_script", "read_result"]
        assert set(tools) == {*plain, "one__open", "one__refresh", "two__open", "two__refresh"}
        assert tools["two__open"]["_meta"] == {
            "ui": {"resourceUri": "ui://two/board/main.html", "vendor": 1},
            "ui/resourceUri": "ui://two/board/main.html",
            "com.example/mark": True,
        }


@shows("ui", "addresses in lists, reads, links, results", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_an_interface_is_read_and_linked_under_the_address_of_its_server(
    open_gateway: OpenGateway, era: str
) -> None:
    async with house(open_gateway, era) as client:
        listed = (await ask(client, "resources/list", {}))["resources"]
        apps = [entry for entry in listed if entry["uri"].startswith("ui://")]
        assert [entry["uri"] for entry in apps] == ["ui://one/board/main.html", "ui://two/board/main.html"]
        assert apps[0]["_meta"] == {"ui": {"prefersBorder": True}}
        read = await ask(client, "resources/read", {"uri": "ui://two/board/main.html"})
        assert read["vendor"] == {"kept": 1}
        assert read["contents"] == [
            {
                "uri": "ui://two/board/main.html",
                "mimeType": APP_TYPE,
                "text": "<html>two</html>",
                "_meta": {"ui": {"csp": {"connectDomains": ["https://example.com"]}, "domain": "x"}},
            }
        ]
        result = await ask(client, "tools/call", {"name": "two__open", "arguments": {}}, {UI: {}})
        assert result["content"][1]["uri"] == "ui://two/board/main.html"
        assert result["content"][2] == {
            "type": "resource",
            "resource": {"uri": "ui://two/board/main.html", "mimeType": "text/plain", "text": "x"},
            "vendor": 1,
        }
        assert result["_meta"]["ui"] == {"resourceUri": "ui://two/board/main.html"}
        assert result["_meta"]["com.example/mark"] == 2


@shows("ui", "tools for apps only", clients="modern", servers="modern")
async def test_a_tool_for_apps_only_is_hidden_from_models_and_callable_by_hosts(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern") as client:

        async def native(tool: str, /, **arguments: Any) -> str:
            result = await ask(client, "tools/call", {"name": tool, "arguments": arguments})
            return result["content"][0]["text"]

        assert "refresh" not in await native("find_tools", server="one", limit=50)
        assert "one.refresh" not in await native("find_tools", query="refresh")
        assert "No tool named 'one.refresh'" in await native("describe_tools", names=["one.refresh"])
        assert "No tool named 'one.refresh'" in await native("call_tool", name="one.refresh", arguments={})
        hidden = await ask(client, "tools/call", {"name": "one__refresh", "arguments": {}})
        assert hidden["code"] == -32602
        by_host = await ask(client, "tools/call", {"name": "one__refresh", "arguments": {}}, {UI: {}})
        assert by_host["structuredContent"]["server"] == "one"


async def mark_of(client: Raw, server: str) -> dict[str, Any]:
    """What the page of a server's interface adds to what it asks, read out of the page."""
    read = await ask(client, "resources/read", {"uri": f"ui://{server}/board/main.html"}, {UI: {}})
    mark = re.search(r'"mark":"([^"]+)"', read["contents"][0]["text"])
    assert mark is not None
    return {"_meta": {APP_MARK: mark[1]}}


@shows("ui", "an app's calls", clients="modern", servers="modern")
async def test_an_app_reaches_its_own_server_and_no_other(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern") as client:
        mark = await mark_of(client, "two")

        async def call(name: str, marked: dict[str, Any]) -> Any:
            return await ask(client, "tools/call", {"name": name, "arguments": {}, **marked}, {UI: {}})

        for name in ("refresh", "two__refresh", "only_two", "seen", "two.seen"):
            assert (await call(name, mark))["structuredContent"]["server"] == "two"
        assert APP_MARK not in (await call("seen", mark))["structuredContent"]["meta"]
        for name in ("only_one", "one__refresh", "one__open", "one.seen", "call_tool", "find_tools"):
            assert (await call(name, mark))["code"] == -32602, name
        forged = {"_meta": {APP_MARK: mark["_meta"][APP_MARK][:-2] + "xx"}}
        assert (await call("refresh", forged))["code"] == -32602
        assert (await call("refresh", {}))["code"] == -32602, "without a mark nobody knows whose it is"

        async def read(uri: str) -> Any:
            return await ask(client, "resources/read", {"uri": uri, **mark}, {UI: {}})

        for uri in ("ui://board/main.html", "ui://two/board/main.html", "ui://one/board/main.html"):
            assert (await read(uri))["contents"][0]["text"] == "<html>two</html>"
        listed = await ask(client, "resources/list", mark, {UI: {}})
        assert [entry["uri"] for entry in listed["resources"]] == ["ui://two/board/main.html"]
        assert (await ask(client, "groups/list", mark, {UI: {}}))["code"] == -32601


@shows("ui", "apps cannot use Wicket's own tools", clients="modern", servers="Wicket")
async def test_hosts_are_told_that_our_own_tools_are_not_for_apps(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern") as client:
        tools = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}, {UI: {}}))["tools"]}
        assert tools["call_tool"]["_meta"]["ui"] == {"visibility": ["model"]}
        plain = {tool["name"]: tool for tool in (await ask(client, "tools/list", {}))["tools"]}
        assert "ui" not in plain["call_tool"].get("_meta", {})


@shows("ui", "a single app is confined too", clients="modern", servers="modern")
async def test_the_only_app_is_kept_from_other_servers_and_from_our_own_tools_too(open_gateway: OpenGateway) -> None:
    async with (
        open_gateway({"one": extended("modern", "one"), "x": peer("Echo")}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        mark = await mark_of(client, "one")

        async def call(name: str, marked: dict[str, Any]) -> Any:
            return await ask(client, "tools/call", {"name": name, "arguments": {}, **marked}, {UI: {}})

        assert (await call("refresh", mark))["structuredContent"]["server"] == "one"
        for name in ("x.echo", "x__echo", "echo", "run_script"):
            assert (await call(name, mark))["code"] == -32602, name
        assert (await call("refresh", {}))["code"] == -32602, "no words of an app are understood without its mark"


async def test_an_app_whose_server_is_served_as_it_is_passes_as_it_is(open_gateway: OpenGateway) -> None:
    async with (
        open_gateway({"one": extended("modern", "one")}, unprefixed=True) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        page = await ask(client, "resources/read", {"uri": "ui://board/main.html"}, {UI: {}})
        assert page["contents"][0]["text"] == "<html>one</html>"


async def test_an_app_inside_a_result_may_ask_nobody(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern") as client:
        result = await ask(client, "tools/call", {"name": "one__open", "arguments": {"page": True}}, {UI: {}})
        page = result["content"][-1]["resource"]
        mark = re.search(r'"mark":"([^"]+)"', page["text"])
        assert page["uri"] == "ui://one/board/main.html"
        assert mark is not None
        params = {"name": "refresh", "arguments": {}, "_meta": {APP_MARK: mark[1]}}
        assert (await ask(client, "tools/call", params, {UI: {}}))["code"] == -32602
        plain = await ask(
            client, "tools/call", {"name": "call_tool", "arguments": {"name": "one.open", "arguments": {"page": True}}}
        )
        assert plain["content"][-1]["resource"]["text"] == "<html>one</html>", "other clients get what the server sent"


BLOB = b64encode(b"<html>hostile</html>").decode()
DISGUISED: list[dict[str, Any]] = [
    {"mimeType": "text/html"},
    {"mimeType": "TEXT/HTML; Profile=MCP-App"},
    {"mimeType": 'text/html;charset=utf-8;profile="mcp-app"'},
    {"mimeType": None},
    {"blob": BLOB},
    {"mimeType": "text/html", "blob": BLOB},
    {"blob": "not Base64"},
]


@shows("ui", "a page of another type, or in two forms, is confined too", clients="modern", servers="modern")
@pytest.mark.parametrize("disguise", [*DISGUISED, {"mimeType": "text/plain"}], ids=str)
async def test_an_interface_is_confined_whatever_type_its_server_gives_it(
    open_gateway: OpenGateway, disguise: dict[str, Any]
) -> None:
    async with house(open_gateway, "modern") as client:
        fields = {"com.example/content": disguise}
        read = await ask(client, "resources/read", {"uri": "ui://one/board/main.html", **fields}, {UI: {}})
        pages = [read["contents"][0]]
        if disguise in DISGUISED:  # some hosts show what a result contains, if it is a page
            call = {"name": "one__open", "arguments": {"page": True}, **fields}
            pages.append((await ask(client, "tools/call", call, {UI: {}}))["content"][-1]["resource"])
        for page in pages:
            forms = [page["text"], *([b64decode(page["blob"]).decode()] if "blob" in page else [])]
            assert all('"mark":"' in form and "<html>one" not in form for form in forms)


# Skills, tool resolution


@shows("skills", "list, get, read, directory, digests", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_skills_of_all_servers_are_listed_read_and_found(open_gateway: OpenGateway, era: str) -> None:
    async with house(open_gateway, era) as client:
        await ask(client, "resources/list", {})
        listed = await ask(client, "skills/list", {})
        skills = listed["skills"]
        assert (listed["ttlMs"], listed["cacheScope"]) == (40_000, "private"), "no longer than any server allows"
        assert [skill["uri"] for skill in skills] == [f"skill://{name}/pdf-forms/SKILL.md" for name in ("one", "two")]
        skill = (await ask(client, "skills/get", {"uri": skills[1]["uri"]}))["skill"]
        assert skill == skills[1]
        assert (skill["frontmatter"]["uri"], skill["vendor"]) == ("untouched", 1)
        assert [file["uri"] for file in skill["resources"]] == [
            "skill://two/pdf-forms/SKILL.md",
            "skill://two/pdf-forms/other.md",
        ]
        content = (await ask(client, "resources/read", {"uri": skill["uri"]}))["contents"][0]
        assert content["uri"] == skill["uri"]
        assert content["text"].endswith("Open the form.")
        listed = await ask(client, "resources/directory/read", {"uri": "skill://two/pdf-forms"})
        assert listed["resources"][0]["uri"] == "skill://two/pdf-forms/SKILL.md"
        forged = await ask(client, "resources/read", {"uri": "skill://two/pdf-forms/other.md"})
        assert "size differs" in forged["message"]


@shows("skills", "skills that are not listed", clients="modern", servers="modern")
async def test_a_skill_that_is_not_listed_is_still_told_of_and_read(open_gateway: OpenGateway) -> None:
    server = {"command": sys.executable, "args": ["-m", "tests.conformance.skill_server", "--stdio"], "cwd": str(ROOT)}
    async with (
        open_gateway({"s": server}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        listed = (await ask(client, "skills/list", {}))["skills"]
        assert [skill["uri"] for skill in listed] == ["skill://s/pdf-forms/SKILL.md", "skill://s/code-review/SKILL.md"]
        skill = (await ask(client, "skills/get", {"uri": "skill://s/unlisted/SKILL.md"}))["skill"]
        assert [file["uri"] for file in skill["resources"]] == [
            "skill://s/unlisted/SKILL.md",
            "skill://s/unlisted/references/GUIDE.md",
        ]
        guide = await ask(client, "resources/read", {"uri": skill["resources"][1]["uri"]})
        assert guide["contents"][0]["text"] == "How to unlisted.\n"
        for uri in ("skill://s/nothing/SKILL.md", "skill://elsewhere/x/SKILL.md"):
            assert (await ask(client, "skills/get", {"uri": uri}))["code"] == -32602


@shows("skills", "files that cannot be verified are refused", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_no_file_of_a_skill_passes_unverified(open_gateway: OpenGateway, era: str) -> None:
    servers = {name: extended(era, name) for name in ("misnames", "unlists", "one")}
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        refused = {
            "skill://misnames/pdf-forms/SKILL.md": "answered with 'skill://pdf-forms/unknown.md'",
            "skill://unlists/pdf-forms/SKILL.md": "cannot be compared with what server 'unlists' says",
            "skill://one/unlisted/other.md": "size differs",
        }
        for uri, words in refused.items():
            assert words in (await ask(client, "resources/read", {"uri": uri}))["message"]
        whole = await ask(client, "resources/read", {"uri": "skill://one/unlisted/SKILL.md"})
        assert whole["contents"][0]["text"].endswith("Open the form.")


@shows("skills", "skills of more than 512 files or 16 MiB are refused", clients="modern", servers="both")
@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_that_is_too_large_is_neither_listed_nor_read(open_gateway: OpenGateway, era: str) -> None:
    async with (
        open_gateway({"large": extended(era, "large")}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        skills = (await ask(client, "skills/list", {}))["skills"]
        assert [skill["uri"] for skill in skills] == ["skill://large/pdf-forms/SKILL.md"]
        uri = "skill://large/large/SKILL.md"
        for method in ("skills/get", "resources/read"):
            assert "larger than 512 files and 16 MiB" in (await ask(client, method, {"uri": uri}))["message"]
        assert (await ask(client, "resources/read", {"uri": skills[0]["uri"]}))["contents"]


@shows("skills", "found by `find_tools`", clients="modern", servers="modern")
async def test_a_search_names_the_skill_and_how_to_read_it(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "modern") as client:
        await ask(client, "resources/list", {})
        find = {"name": "find_tools", "arguments": {"query": "fill in a pdf form"}}
        found = (await ask(client, "tools/call", find))["content"][0]["text"]
        address = "skill://one/pdf-forms/SKILL.md"
        line = f'[Skill one/pdf-forms: Fill in PDF forms. Read it: read_result(id="{address}")]'
        assert line in found
        for arguments in ({"server": "one"}, {"server": "one", "query": "fill in a pdf form"}):
            call = {"name": "find_tools", "arguments": arguments}
            of_server = (await ask(client, "tools/call", call))["content"][0]["text"]
            assert line in of_server
            assert "Skill two" not in of_server
        read = {"name": "read_result", "arguments": {"id": address}}
        assert "Open the form." in (await ask(client, "tools/call", read))["content"][0]["text"]
        other = {"name": "find_tools", "arguments": {"query": "send an email"}}
        assert "Skill" not in (await ask(client, "tools/call", other))["content"][0]["text"]


class SlowSkills(InModernEra):
    """Lists its skill once all servers of `meeting` have been asked for theirs."""

    def __init__(self, meeting: asyncio.Barrier) -> None:
        super().__init__()
        self.meeting = meeting

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        complete = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        if request.rpc_method == "server/discover":
            offers: dict[str, Any] = {"tools": {}, "extensions": {SKILLS: {}}}
            greeting = {**complete, "supportedVersions": ["2026-07-28"], "capabilities": offers}
            send(writer, 200, JSON, request.answered(greeting))
        elif request.rpc_method == "skills/list":
            await self.meeting.wait()
            about = {"name": "pdf-forms", "description": "Fill in PDF forms."}
            entry: dict[str, Any] = {"uri": "skill://pdf-forms/SKILL.md", "frontmatter": about, "resources": []}
            send(writer, 200, JSON, request.answered({**complete, "skills": [entry]}))
        else:
            await super().answer(request, writer)


async def test_a_search_asks_all_servers_for_skills_at_once_and_leaves_out_a_silent_one(
    open_gateway: OpenGateway,
) -> None:
    meeting = asyncio.Barrier(2)
    async with (
        SlowSkills(meeting) as one,
        SlowSkills(meeting) as two,
        SlowSkills(asyncio.Barrier(2)) as silent,
        open_gateway({"silent": {"url": silent.url}, "one": {"url": one.url}, "two": {"url": two.url}}) as gateway,
    ):
        await gateway.tools()
        call = ToolCall({"query": "fill in a pdf form"}, Silent())
        found = (await gateway.protocol().menu.call(gateway.verbs, "find_tools", call))["content"][0]["text"]
        assert re.findall(r"Skill (\w+)/pdf-forms", found) == ["one", "two"]


@shows("tool-resolution", "`call_tool`, `run_script`", clients="modern", servers="modern")
@pytest.mark.parametrize("dialects", [("native",), ("native", "flat")], ids="+".join)
async def test_a_call_is_resolved_to_the_annotations_of_the_real_tool(
    open_gateway: OpenGateway, dialects: tuple[str, ...]
) -> None:
    async with house(open_gateway, "modern", *dialects) as client:
        call: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "one.seen", "arguments": {}}}
        assert (await ask(client, "tools/resolve", call))["annotations"] == {"readOnlyHint": True, "title": "Seen"}
        script = await ask(client, "tools/resolve", {"name": "run_script", "arguments": {"code": "1"}})
        assert script["annotations"]["destructiveHint"] is True
        own = await ask(client, "tools/resolve", {"name": "find_tools", "arguments": {}})
        assert own["annotations"]["readOnlyHint"] is True
