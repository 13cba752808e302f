"""What a profile does not show cannot be found, described, called, scripted or read through it, in any dialect."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client
from mcp.types import Implementation
from msgspec.structs import replace

from tests.conftest import OpenGateway, Server, peer, replay
from tests.gateway.serving import raw_client, serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.calls.profile_budgets import ProfileBudgets
from wicket_mcp.codec import encode
from wicket_mcp.config.model.profile import ProfileConfig
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import ConfigError, RateLimited, WicketError
from wicket_mcp.model import LOCAL, SCOPES, JsonObject, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.results.content import count_text
from wicket_mcp.store.open import open_store
from wicket_mcp.surface.protocol import _METHODS  # pyright: ignore[reportPrivateUsage]

DIALECTS = ("native", "flat", "lua", "meta", "chain", "broker", "bridge")
MARK = "xyzzy"
TOKYO: JsonObject = {"timezone": "Asia/Tokyo"}
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


def questions(dialect: str, server: str = "safe", tool: str = f"{MARK}_1") -> list[tuple[str, JsonObject]]:
    """Everything that one may ask in a dialect about a tool, as somebody would who knows its name."""
    name, script = f"{server}.{tool}", f"await {server}.{tool}()"
    lua = f"result({server}.{tool}({{}}):await())"
    asked: dict[str, list[tuple[str, JsonObject]]] = {
        "native": [
            ("find_tools", {}),
            ("find_tools", {"query": f"open the {MARK} safe", "limit": 50}),
            ("find_tools", {"query": f"{server} {tool}", "limit": 50}),
            ("find_tools", {"server": server}),
            ("describe_tools", {"names": [name, tool, f"{server}__{tool}"]}),
            ("call_tool", {"name": name}),
            ("call_tool", {"name": tool}),
            ("run_script", {"code": script}),
            ("run_script", {"code": f"await tools.call('{name}', {{}})"}),
            ("run_script", {"code": f"await tools.describe('{name}')"}),
            ("run_script", {"code": "await tools.search('open the safe', limit=50)"}),
            ("run_script", {"code": f"return await {server}.{tool}({{}})", "language": "javascript"}),
            ("run_script", {"code": lua, "language": "lua"}),
            (name, {}),
        ],
        "flat": [(f"{server}__{tool}", {}), (tool, {})],
        "lua": [
            ("list-servers", {}),
            ("list-server-tools", {"luaServerName": server}),
            ("tool-details", {"luaServerName": server, "luaToolName": tool}),
            ("execute", {"script": lua}),
        ],
        "meta": [
            ("TOOL_LIST", {}),
            ("TOOL_GET", {"tool_name": tool}),
            ("TOOL_CALL", {"tool_name": tool, "arguments": {}}),
        ],
        "chain": [("search_tools", {"task_description": "open the safe"}), ("list_tools", {})],
        "broker": [
            ("broker_search", {"query": "open the safe"}),
            ("broker_invoke", {"server": server, "tool": tool, "arguments": {}}),
        ],
        "bridge": [
            ("discover_mcp_servers", {"query": "open the safe"}),
            ("invoke_tool", {"server_name": server, "tool_name": tool, "arguments": {}}),
            ("list_managed_servers", {}),
            (f"{server}_{tool}", {}),
            (f"{server}__{tool}", {}),
        ],
    }
    return asked[dialect]


def reading(handle: str) -> list[tuple[str, JsonObject]]:
    """Every way to read a stored result, or to use it."""
    return [
        ("read_result", {"id": handle}),
        ("read_result", {"id": handle, "grep": "qz"}),
        ("run_script", {"code": f"await results.get('{handle}')"}),
        ("run_script", {"code": f"return await results.get('{handle}')", "language": "javascript"}),
        ("call_tool", {"name": "echo.echo", "arguments": {"message": {"$result": handle}}}),
    ]


async def ask_everything(
    gateway: Gateway, profile: str | Principal, server: str = "safe", tool: str = f"{MARK}_1"
) -> list[str]:
    """What anybody can get to read of this gateway through a profile, but for what they said themselves."""
    principal = replace(LOCAL, profile=profile) if isinstance(profile, str) else profile
    heard = [await gateway._rooms.instructions((), principal)]  # pyright: ignore[reportPrivateUsage]
    for dialect in DIALECTS:
        menu = gateway.protocol(dialect).menu
        heard.append(encode(await menu.list(gateway.verbs, principal)).decode())
        for name, arguments in questions(dialect, server, tool):
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
RENAMED: Mapping[str, Any] = {
    "servers": ["git", "safe"],
    "names": {f"safe.{MARK}_{n}": f"locker_{n}" for n in range(3)},
    "descriptions": {f"safe.{MARK}_{n}": f"Empty locker number {n}" for n in range(3)},
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


WORDS = {f"{server}.tool_{n}": f"qz{server}{n}" for server in ("alpha", "beta") for n in range(4)}
"""A word for each tool of two servers that is in its description, in its answer and nowhere else."""


def worded(folder: Path, server: str, rest: str = "") -> Server:
    """A server whose tools each say their word."""
    words = {name.partition(".")[2]: word for name, word in WORDS.items() if name.startswith(server)}
    listing = {
        "tools": [
            {"name": name, "description": f"Open the safe {word}", "inputSchema": OBJECT}
            for name, word in words.items()
        ],
        "results": {name: {"content": [{"type": "text", "text": word + rest}]} for name, word in words.items()},
    }
    file = folder / f"{server}.json"
    file.write_text(json.dumps(listing))
    return peer("Mutates", env={"LISTING": str(file)})


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_a_profile_says_no_dialect_speaks_of_what_it_does_not_show(
    open_gateway: OpenGateway, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    patterns = ["alpha.*", "beta.tool_[0-1]", "*.tool_2", "alpha.tool_3", "*.tool_[!1]", "beta.tool_3"]
    profile = {"servers": rng.choice([["*"], ["alpha"], ["b*", "alpha"]]), "tools": rng.sample(patterns, 2)}
    servers = {name: worded(tmp_path, name) for name in ("alpha", "beta")}
    async with open_gateway(servers, profiles={"p": profile}) as gateway:
        await gateway.tools()
        [config] = gateway.config.profiles
        shown = {key for key in WORDS if config.shows(view_tool(gateway, key))}
        hidden = WORDS.keys() - shown
        assert shown, "a profile that shows nothing shows nothing wrong"
        for key in rng.sample(sorted(hidden), min(2, len(hidden))):
            for said in await ask_everything(gateway, "p", *key.split(".")):
                assert not [other for other in hidden if WORDS[other] in said]
        for key in rng.sample(sorted(shown), 1):
            said = await ask_everything(gateway, "p", *key.split("."))
            assert sum(WORDS[key] in each for each in said) > 10, "what is shown can be asked for in all these ways"


@pytest.mark.parametrize("seed", range(3))
async def test_a_stored_result_is_readable_only_where_its_tool_is_shown(
    open_gateway: OpenGateway, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    patterns = ["alpha.*", "beta.tool_[0-1]", "*.tool_2", "alpha.tool_3", "*.tool_[!1]", "beta.tool_3"]
    profile = {"tools": [*rng.sample(patterns, 2), "echo.*"], "names": {"alpha.tool_2": "other", "beta.tool_3": "more"}}
    servers = {"echo": peer("Echo"), **{name: worded(tmp_path, name, "-" * 200) for name in ("alpha", "beta")}}
    profiles = {"p": profile, "open": {"servers": ["*"]}}
    async with open_gateway(servers, profiles=profiles, results={"large": 30}) as gateway:
        await gateway.tools()
        config = gateway.config.profiles[0]
        shown = {key for key in WORDS if config.shows(view_tool(gateway, key))}
        menu = gateway.protocol("native").menu

        async def say(name: str, arguments: JsonObject, profile: str) -> JsonObject:
            try:
                return await menu.call(
                    gateway.verbs, name, ToolCall(arguments, Silent(replace(LOCAL, profile=profile)))
                )
            except WicketError as problem:
                return {"content": [{"type": "text", "text": str(problem)}]}

        async def readers(handle: str, word: str, profile: str) -> int:
            answers = [await say(name, arguments, profile) for name, arguments in reading(handle)]
            return sum(word in encode(answer).decode() for answer in answers)

        for key, word in WORDS.items():
            for where in ("", "open"):
                called = await say("call_tool", {"name": key}, where)
                handle = called["_meta"]["wicket/result"]["id"]
                assert await readers(handle, word, "") == len(reading(handle))
                assert await readers(handle, word, "p") == (len(reading(handle)) if key in shown else 0)
        for where in ("", "open"):
            ran = await say("run_script", {"code": "await alpha.tool_0()"}, where)
            handle = ran["_meta"]["wicket/result"]["id"]
            assert await readers(handle, WORDS["alpha.tool_0"], where) == len(reading(handle))
            assert await readers(handle, WORDS["alpha.tool_0"], "p") == 0


async def test_patterns_of_tools_match_a_server_with_dots_in_its_name(open_gateway: OpenGateway) -> None:
    profiles = {"work": {"tools": ["my.server.get_*"]}, "all": {"tools": ["my.*.*"]}, "other": {"tools": ["my.get_*"]}}
    async with open_gateway({"my.server": replay("time"), "git": replay("git")}, profiles=profiles) as gateway:
        shown = {
            name: {tool.name for tool in (await gateway.verbs.view(replace(LOCAL, profile=name))).tools}
            for name in profiles
        }
        assert shown == {"work": {"get_current_time"}, "all": {"get_current_time", "convert_time"}, "other": set()}


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


async def test_a_server_that_obviously_cannot_start_is_marked_before_anyone_tried(open_gateway: OpenGateway) -> None:
    servers: dict[str, Server] = {
        "git": replay("git"),
        "absent": {"command": "surely-not-installed-anywhere"},
        "unset": {"command": "true", "env": {"KEY": "${SURELY_NOT_SET_ANYWHERE}"}},
    }
    async with open_gateway(servers) as gateway:
        text = await gateway._rooms.instructions()  # pyright: ignore[reportPrivateUsage]
        assert text.splitlines()[-3:] == ["- git", "- absent [unavailable]", "- unset [unavailable]"]


async def test_who_is_held_to_a_profile_sees_no_other(open_gateway: OpenGateway) -> None:
    profiles = {"work": {"servers": ["git"], "keys": ["agent"]}, "other": {"servers": ["time"]}}
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        agent = replace(LOCAL, name="agent")
        for names in ((), ("flat",), ("profile:other",), ("profile:work",)):
            assert gateway.protocol(*names).served.admit(agent, "").profile == "work"
        assert gateway.protocol("profile:other").served.admit(LOCAL, "").profile == "other"
        assert gateway.protocol().served.admit(LOCAL, "").profile == ""


async def test_who_is_bound_to_a_profile_and_came_without_one_sees_nothing(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    """W2: a surface that forgets to apply profiles shows nothing, and not everything."""
    profiles = {"work": {"servers": ["safe"], "keys": ["agent"]}, "team": {"servers": ["safe"], "groups": ["staff"]}}
    async with open_gateway({"safe": marked(tmp_path)}, profiles=profiles) as gateway:
        agent = Principal("agent", SCOPES)
        assert any("Open the xyzzy safe" in said for said in await ask_everything(gateway, gateway.place(agent)))
        for forgotten in (agent, Principal("ann", SCOPES, groups=frozenset({"staff"}))):
            for said in await ask_everything(gateway, forgotten):
                assert "Open the xyzzy" not in said
                assert f'"{MARK}"' not in said
                assert "xyzzy_0" not in said
            assert gateway.catalogue.view(forgotten).servers == {}
            with pytest.raises(WicketError, match="No resource"):
                await gateway.verbs.read_resource(f"wicket://safe/{MARK}://1", Silent(forgotten))
            with pytest.raises(WicketError, match="No prompt"):
                await gateway.verbs.get_prompt(f"safe/{MARK}_prompt", None, Silent(forgotten))


async def test_a_profile_shows_nothing_that_its_servers_options_exclude(open_gateway: OpenGateway) -> None:
    """Mutant at trust/policy.py: a profile narrows what a server's own options leave, and adds nothing to it."""
    servers = {"git": {**replay("git"), "denied_tools": ["git_log"]}}
    profiles = {"work": {"servers": ["git"]}, "few": {"tools": ["git.git_l*", "git.git_status"]}}
    async with open_gateway(servers, profiles=profiles) as gateway:
        await gateway.catalogue.complete()
        for profile in profiles:
            for scopes in (SCOPES, frozenset({"invoke"})):
                principal = Principal("ann", scopes, profile=profile)
                assert "git.git_log" not in [tool.key for tool in gateway.catalogue.view(principal).tools]
                with pytest.raises(WicketError, match="git_log"):
                    await gateway.verbs.call(tool_call("git.git_log", {}, Silent(principal)))
            view = gateway.catalogue.view(Principal("ann", SCOPES, profile=profile))
            assert "git.git_status" in [tool.key for tool in view.tools]


async def test_who_is_bound_to_a_profile_administers_nothing(open_gateway: OpenGateway) -> None:
    """W2: an administrator sees the calls, questions and accounts of every server."""
    profiles = {"work": {"servers": ["git"], "keys": ["agent"]}, "other": {"servers": ["git"]}}
    async with open_gateway({"git": replay("git")}, profiles=profiles) as gateway:
        assert gateway.place(Principal("agent", SCOPES)).scopes == SCOPES - {"admin"}
        assert gateway.place(Principal("agent", frozenset({"admin"}))).scopes == SCOPES - {"admin"}
        assert gateway.place(Principal("agent", frozenset({"discover"}))).scopes == {"discover"}
        at_other = gateway.protocol("profile:other").served.admit(Principal("ann", SCOPES), "")
        assert (at_other.profile, at_other.scopes) == ("other", SCOPES)  # chose it, and may choose another


@pytest.mark.parametrize(
    ("profiles", "said"),
    [
        ({"work": {}}, "profiles.work: shows nothing"),
        ({"work": {"servers": ["git"], "dialects": ["bridge"]}}, "profiles.work.dialects"),
        ({"a/b": {"servers": ["git"]}}, "cannot be part of an address"),
        ({"work": {"serverz": ["git"]}}, "profiles.work"),
        ({"work": {"servers": ["git"], "names": {"git_log": "history"}}}, "names no tool"),
        ({"work": {"servers": ["git"], "names": {"git.git_log": "a b"}}}, "'a b' cannot be the name of a tool"),
        ({"work": {"servers": ["git"], "names": {"git.a": "c", "git.b": "c"}}}, "'c' is the name of 'git.a' already"),
    ],
)
async def test_a_profile_that_cannot_be_is_named(open_gateway: OpenGateway, profiles: JsonObject, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_gateway({"git": replay("git")}, profiles=profiles):
            pass
    assert said in str(caught.value)


async def test_a_tool_under_another_name_has_no_trace_of_its_own_in_any_dialect(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    servers = {"git": replay("git"), "safe": marked(tmp_path)}
    async with open_gateway(servers, profiles={"renamed": RENAMED}) as gateway:
        said = await ask_everything(gateway, "renamed")
        listings = 3  # of resources, templates and prompts, which have no other names
        assert sum("locker_1" in each for each in said) > 5
        for each in said[:-listings]:
            assert f"{MARK}_0" not in each
            assert f"Open the {MARK}" not in each
        principal = replace(LOCAL, profile="renamed")
        for name in (f"safe.{MARK}_1", f"{MARK}_1", f"safe__{MARK}_1", f"safe/{MARK}_1"):
            with pytest.raises(WicketError):
                await gateway.verbs.resolve(name, principal)


async def test_a_renamed_tool_is_found_called_scripted_and_recorded(open_gateway: OpenGateway) -> None:
    profiles = {
        "work": {
            "servers": ["git"],
            "names": {"git.git_log": "story_of_acme", "git.git_status": "weather"},
            "descriptions": {"git.git_log": "What the wombats did"},
        }
    }
    rule = {"server": "git", "tool": "git_status", "action": "deny"}
    options: dict[str, Any] = {"aliases": {"history": "git.git_log"}, "policy": [rule]}
    async with open_gateway({"git": replay("git")}, profiles=profiles, **options) as gateway:
        principal = replace(LOCAL, profile="work")
        answer = await gateway.verbs.search("what did the wombats do", principal=principal)
        assert answer.hits[0].tool.key == "git.story_of_acme"
        assert (await gateway.verbs.resolve("history", principal)).key == "git.story_of_acme"
        menu, caller = gateway.protocol("native").menu, Silent(principal)
        arguments: JsonObject = {"repo_path": "/repo", "max_count": 1}
        call = ToolCall({"name": "git.story_of_acme", "arguments": arguments}, caller)
        assert not (await menu.call(gateway.verbs, "call_tool", call)).get("isError")
        script = f"await git.story_of_acme(**{arguments!r})"
        assert not (await menu.call(gateway.verbs, "run_script", ToolCall({"code": script}, caller))).get("isError")
        wrong = ToolCall({"name": "git.story_of_acme", "arguments": {"max_count": []}}, caller)
        said = encode(await menu.call(gateway.verbs, "call_tool", wrong)).decode()
        assert "git.story_of_acme(repo_path: string" in said
        denied = ToolCall({"name": "git.weather", "arguments": {"repo_path": "/"}}, caller)
        said = encode(await menu.call(gateway.verbs, "call_tool", denied)).decode()
        assert "git.git_status' was not called" in said  # rules go by the tool's own name
        recent = [record for record in await gateway.verbs.recent(LOCAL, 10) if record.tool != "git_status"]
        assert [record.tool for record in recent] == ["git_log"] * 3
        after = await gateway.verbs.search("wombats", principal=principal)
        assert after.hits[0].tool.key == "git.story_of_acme"


async def test_a_client_is_served_the_profile_that_names_it(open_gateway: OpenGateway) -> None:
    profiles = {
        "code": {"servers": ["git"], "clients": ["claude-code"], "dialects": ["flat"]},
        "chat": {"servers": ["time"], "clients": ["cursor*", "windsurf"]},
    }
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        async with serve_http(gateway) as address, raw_client(address) as client:
            for name, shown in (("claude-code", 12), ("cursor-vscode", 0), ("other", 0)):
                _, body = await client.modern("tools/list", client=name)
                tools = {tool["name"] for tool in body["result"]["tools"]}
                assert len({tool for tool in tools if tool.startswith("git__")}) == shown
                _, told = await client.modern("server/discover", client=name)
                assert ("time" in told["result"]["instructions"]) == (name != "claude-code")
            _, found = await client.modern(
                "tools/call", {"name": "find_tools", "arguments": {"query": "git log"}}, client="cursor-vscode"
            )
            assert "git_log" not in encode(found).decode()
        both = replace(LOCAL, name="agent")
        served = gateway.protocol("profile:chat").served
        assert served.admit(both, "claude-code").profile == "chat"  # the address says more than a name


async def test_a_legacy_client_is_served_the_profile_that_names_it(open_gateway: OpenGateway) -> None:
    profiles = {"code": {"servers": ["git"], "clients": ["claude-code"], "dialects": ["flat"]}}
    async with open_gateway({"git": replay("git"), "time": replay("time")}, profiles=profiles) as gateway:
        async with serve_http(gateway, token=None) as address:
            for name, shown in (("claude-code", 12), ("other", 0)):
                info = Implementation(name=name, version="1")
                async with Client(address, mode="legacy", client_info=info) as client:
                    listed = await client.list_tools()
                    assert sum(tool.name.startswith("git__") for tool in listed.tools) == shown


async def test_a_profile_has_a_budget_of_calls_and_tokens(open_gateway: OpenGateway) -> None:
    profiles = {
        "few": {"servers": ["time"], "calls_per_hour": 2},
        "short": {"servers": ["time"], "tokens_per_hour": 20},
    }
    call: JsonObject = {"name": "call_tool", "arguments": {"name": "time.get_current_time", "arguments": TOKYO}}
    async with open_gateway({"time": replay("time")}, profiles=profiles) as gateway:
        async with serve_http(gateway) as address:
            async with raw_client(f"{address}/p/few") as client:
                for _ in range(2):
                    _, body = await client.modern("tools/call", call)
                    assert not body["result"].get("isError")
                _, body = await client.modern("tools/call", call)
                assert "Profile 'few' has used its 2 calls an hour" in encode(body).decode()
            async with raw_client(f"{address}/p/short") as client:
                _, body = await client.modern("tools/call", {"name": "find_tools", "arguments": {"query": "time"}})
                assert "time.get_current_time" in encode(body).decode()
                _, body = await client.modern("tools/call", call)
                assert "Profile 'short' has used its 20 tokens an hour" in encode(body).decode()
            async with raw_client(address) as client:
                _, body = await client.modern("tools/call", call)
                assert not body["result"].get("isError")


FREE = {"initialize", "ping", "logging/setLevel", "server/discover", "subscriptions/listen", "tools/list"}
"""Methods that tell no text of servers, or that a client cannot begin without."""


async def test_no_method_gives_text_to_a_profile_that_has_used_its_tokens(open_gateway: OpenGateway) -> None:
    """B12: `resources/read`, prompts and completion were neither counted nor refused."""
    methods = [name for name in _METHODS if not name.startswith("tasks/") and "subscribe" not in name]
    profiles = {name: {"servers": ["time"], "tokens_per_hour": 20} for name in ("used", "read", "got", "listed")}
    async with open_gateway({"time": replay("time")}, profiles=profiles) as gateway, serve_http(gateway) as address:
        async with raw_client(f"{address}/p/used") as client:
            await client.modern("tools/call", {"name": "find_tools", "arguments": {"query": "time"}})
            refused: set[str] = set()
            for method in [*methods, "vendor/unknown"]:
                named = {"name": "x"} if method != "resources/read" else {"uri": "wicket://backends"}
                given = {**named, "ref": {"type": "ref/prompt", "name": "x"}}
                _, body = await client.modern(method, given, **{"Mcp-Name": named.get("uri", "x")})
                if "has used its 20 tokens an hour" in encode(body).decode():
                    refused.add(method)
            assert refused == {*methods, "vendor/unknown"} - FREE
        first: dict[str, tuple[str, JsonObject]] = {
            "read": ("resources/read", {"uri": "wicket://backends"}),
            "got": ("prompts/get", {"name": "find_tool", "arguments": {"task": "x" * 100}}),
            "listed": ("resources/list", {}),
        }
        for profile, (method, params) in first.items():
            async with raw_client(f"{address}/p/{profile}") as client:
                named = {"Mcp-Name": params.get("uri") or params.get("name", "")}
                _, body = await client.modern(method, params, **named)
                assert "result" in body, body
                _, body = await client.modern(method, params, **named)
                assert f"Profile '{profile}' has used its 20 tokens an hour" in encode(body).decode()


def test_text_is_counted_wherever_it_is_and_nothing_else() -> None:
    said = {"contents": [{"text": "x" * 10, "uri": "u"}, {"blob": "y" * 50, "_meta": {"z": "w"}}], "n": [1, None, "ab"]}
    assert count_text(said) == 13
    deep: Any = "abc"
    for _ in range(5000):
        deep = [deep]
    assert count_text(deep) == 3


async def test_gateways_share_a_budget_that_fills_up_again(tmp_path: Path) -> None:
    clock = [1_800_000_000.0]
    profile = ProfileConfig(name="work", calls_per_hour=2, tokens_per_hour=3600)
    stores = [await open_store(tmp_path / "wicket.db") for _ in range(2)]
    one, two = (ProfileBudgets(store, lambda: clock[0]) for store in stores)
    await one.take_call(profile)
    await two.take_call(profile)
    with pytest.raises(RateLimited, match="has used its 2 calls an hour"):
        await one.take_call(profile)
    await one.spend_tokens(profile, 4 * 3600)
    await two.spend_tokens(profile, 4 * 100)  # an answer that was under way when the first one used up the budget
    with pytest.raises(RateLimited) as caught:
        await one.check_tokens(profile)
    assert caught.value.retry_after == 101
    clock[0] += 102.0
    await two.check_tokens(profile)
    for store in stores:
        await store.close()
