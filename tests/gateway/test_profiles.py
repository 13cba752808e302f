"""What a profile does not show cannot be found, described, called, scripted or read through it, in any dialect."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.conftest import OpenGateway, Server, peer, replay
from tests.gateway.serving import raw_client, serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.config.model.profile import ProfileConfig
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import ConfigError, WicketError
from wicket_mcp.model import LOCAL, JsonObject, Silent

DIALECTS = ("native", "flat", "lua", "meta", "chain", "broker")
MARK = "xyzzy"
OBJECT: JsonObject = {"type": "object"}


def marked(folder: Path) -> Server:
    """A server everything of which bears the mark."""
    file = folder / "listing.json"
    tools = [{"name": f"{MARK}_{n}", "description": f"Open the {MARK} safe", "inputSchema": OBJECT} for n in range(3)]
    listing: JsonObject = {
        "tools": tools,
        "prompts": [{"name": f"{MARK}_prompt"}],
        "templates": [{"uriTemplate": f"{MARK}://{{id}}", "name": MARK}],
        "instructions": f"All about {MARK}.",
        "result": {"content": [{"type": "text", "text": MARK}]},
    }
    file.write_text(json.dumps(listing))
    return peer("Mutates", env={"LISTING": str(file)})


def questions(dialect: str) -> list[tuple[str, JsonObject]]:
    """Everything that one may ask in a dialect, about the marked server as its author would."""
    name, script = f"safe.{MARK}_1", f"await safe.{MARK}_1()"
    lua = f"result(safe.{MARK}_1({{}}):await())"
    asked: dict[str, list[tuple[str, JsonObject]]] = {
        "native": [
            ("find_tools", {}),
            ("find_tools", {"query": f"open the {MARK} safe", "limit": 50}),
            ("find_tools", {"server": "safe"}),
            ("describe_tools", {"names": [name, f"{MARK}_1", f"safe__{MARK}_1"]}),
            ("call_tool", {"name": name}),
            ("call_tool", {"name": f"{MARK}_1"}),
            ("run_script", {"code": script}),
            ("run_script", {"code": f"await tools.call('{name}', {{}})"}),
            ("run_script", {"code": "await tools.search('open the safe', limit=50)"}),
            ("run_script", {"code": f"return await safe.{MARK}_1({{}})", "language": "javascript"}),
            ("run_script", {"code": lua, "language": "lua"}),
            (name, {}),
        ],
        "flat": [(f"safe__{MARK}_1", {})],
        "lua": [
            ("list-servers", {}),
            ("list-server-tools", {"luaServerName": "safe"}),
            ("tool-details", {"luaServerName": "safe", "luaToolName": f"{MARK}_1"}),
            ("execute", {"script": lua}),
        ],
        "meta": [
            ("TOOL_LIST", {}),
            ("TOOL_GET", {"tool_name": f"{MARK}_1"}),
            ("TOOL_CALL", {"tool_name": f"{MARK}_1", "arguments": {}}),
        ],
        "chain": [("search_tools", {"task_description": "open the safe"}), ("list_tools", {})],
        "broker": [
            ("broker_search", {"query": "open the safe"}),
            ("broker_invoke", {"server": "safe", "tool": f"{MARK}_1", "arguments": {}}),
        ],
    }
    return asked[dialect]


async def ask_everything(gateway: Gateway, profile: str) -> list[str]:
    """What anybody can get to read of this gateway through a profile, but for what they said themselves."""
    principal = replace(LOCAL, profile=profile)
    heard = [await gateway._rooms.instructions((), profile)]  # pyright: ignore[reportPrivateUsage]
    for dialect in DIALECTS:
        menu = gateway.protocol(dialect).menu
        heard.append(encode(await menu.list(gateway.verbs, principal)).decode())
        for name, arguments in questions(dialect):
            call = ToolCall(arguments, Silent(principal))
            try:
                answer = encode(await menu.call(gateway.verbs, name, call)).decode()
            except WicketError as problem:
                answer = str(problem)
            for own in (encode(arguments).decode()[1:-1], name):
                answer = answer.replace(own, "")
            heard.append(answer)
    addresses = gateway.verbs.addresses
    listings = (addresses.resources, addresses.templates, addresses.prompts)
    return [*heard, *[encode(await listed(principal)).decode() for listed in listings]]


PROFILES: Mapping[str, Any] = {
    "work": {"servers": ["git"]},
    "few": {"tools": ["git.git_l*", "time.*"]},
    "both": {"servers": ["git", "time"], "tools": ["*.git_status", "time.get_*"], "dialects": ["flat"]},
    "open": {"servers": ["*"]},
}


@pytest.mark.parametrize("profile", ["work", "few", "both", "gone"])
async def test_nothing_of_a_hidden_server_is_ever_said(open_gateway: OpenGateway, tmp_path: Path, profile: str) -> None:
    servers = {"git": replay("git"), "time": replay("time"), "safe": marked(tmp_path)}
    async with open_gateway(servers, profiles=PROFILES) as gateway:
        assert sum("Open the xyzzy safe" in said for said in await ask_everything(gateway, "open")) > 5
        for said in await ask_everything(gateway, profile):
            assert "Open the xyzzy" not in said
            assert f'"{MARK}"' not in said
            assert "xyzzy_0" not in said
        principal = replace(LOCAL, profile=profile)
        for uri in (f"wicket://safe/{MARK}://1",):
            with pytest.raises(WicketError, match="No resource"):
                await gateway.verbs.read_resource(uri, Silent(principal))
        with pytest.raises(WicketError, match="No prompt"):
            await gateway.verbs.get_prompt(f"safe/{MARK}_prompt", None, Silent(principal))


async def test_whatever_a_profile_says_its_view_is_what_its_patterns_match(open_gateway: OpenGateway) -> None:
    rng = random.Random(11)
    words = ["git", "time", "*", "g*", "nothing"]
    tools = ["git.*", "*.git_log", "time.get_current_time", "*.*_time", "git.git_[a-d]*", "nothing.*"]
    profiles = {
        f"p{n}": {
            "servers": rng.sample(words, rng.randint(0, 2)) or ["git"],
            "tools": rng.sample(tools, rng.randint(0, 3)),
        }
        for n in range(40)
    }
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        every = {tool.key for tool in await gateway.tools()}
        for profile in gateway.config.profiles:
            principal = replace(LOCAL, profile=profile.name)
            view = await gateway.verbs.view(principal)
            shown = {tool.key for tool in view.tools}
            assert shown == {key for key in every if profile.shows(view_tool(gateway, key))}
            assert {tool.key for tool in view.wire.values()} == shown
            assert {
                hit.tool.key for hit in (await gateway.verbs.search("git time log", principal=principal, limit=50)).hits
            } <= shown
            for key in every - shown:
                with pytest.raises(WicketError):
                    await gateway.verbs.resolve(key, principal)


def view_tool(gateway: Gateway, key: str) -> Any:
    return next(tool for tool in gateway.catalogue.now.tools if tool.key == key)


async def test_a_profile_is_served_at_an_address_of_its_own(open_gateway: OpenGateway) -> None:
    profiles = {
        "work": {
            "servers": ["git"],
            "dialects": ["flat"],
            "instructions": "Only for the project.",
            "descriptions": {"git.git_log": "What happened before"},
        }
    }
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        async with serve_http(gateway) as address, raw_client(f"{address}/p/work") as client:
            _, body = await client.modern("tools/list")
            tools = {tool["name"]: tool for tool in body["result"]["tools"]}
            assert len(tools) == 12
            assert tools["git__git_log"]["description"] == "What happened before"
            _, told = await client.modern("server/discover")
            assert told["result"]["instructions"].startswith("Only for the project.\n\n")
            assert "time" not in told["result"]["instructions"].split("Servers")[1]


async def test_a_profile_that_is_added_while_it_runs_has_an_address_at_once(open_gateway: OpenGateway) -> None:
    profiles = {"work": {"servers": ["git"], "dialects": ["flat"]}}
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        async with serve_http(gateway) as address, raw_client(f"{address}/p/clock") as client:
            status, _ = await client.modern("tools/list")
            assert status == 404
            added = ProfileConfig(name="clock", servers=("time",), dialects=("flat",))
            gateway.apply(msgspec.structs.replace(gateway.config, profiles=(added,)))
            _, body = await client.modern("tools/list")
            assert {tool["name"] for tool in body["result"]["tools"]} == {
                "time__get_current_time",
                "time__convert_time",
            }
            async with raw_client(f"{address}/p/work") as gone:
                _, body = await gone.modern("tools/list")
                assert "git" not in encode(body).decode()


async def test_a_server_that_failed_is_marked_in_the_instructions(open_gateway: OpenGateway) -> None:
    servers = {"git": replay("git"), "gone": peer("ExitsAtOnce")}
    async with open_gateway(servers) as gateway:
        await gateway.verbs.search("log")
        text = await gateway._rooms.instructions()  # pyright: ignore[reportPrivateUsage]
        assert "- git (12)" in text
        assert "- gone [unavailable]" in text


async def test_who_is_held_to_a_profile_sees_no_other(open_gateway: OpenGateway) -> None:
    profiles = {"work": {"servers": ["git"], "keys": ["agent"]}, "other": {"servers": ["time"]}}
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        agent = replace(LOCAL, name="agent")
        for names in ((), ("flat",), ("profile:other",), ("profile:work",)):
            assert gateway.protocol(*names).served.admit(agent).profile == "work"
        assert gateway.protocol("profile:other").served.admit(LOCAL).profile == "other"
        assert gateway.protocol().served.admit(LOCAL).profile == ""


@pytest.mark.parametrize(
    ("profiles", "said"),
    [
        ({"work": {}}, "profiles.work: shows nothing"),
        ({"work": {"servers": ["git"], "dialects": ["bridge"]}}, "profiles.work.dialects"),
        ({"a/b": {"servers": ["git"]}}, "cannot be part of an address"),
        ({"work": {"serverz": ["git"]}}, "profiles.work"),
    ],
)
async def test_a_profile_that_cannot_be_is_named(open_gateway: OpenGateway, profiles: JsonObject, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_gateway({"git": replay("git")}, profiles=profiles):
            pass
    assert said in str(caught.value)
