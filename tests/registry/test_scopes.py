"""What an API key's scopes allow, in every vocabulary: `discover` to look tools up, `invoke` to call them."""

import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from mcp import MCPError

from tests.conftest import PEERS, peer
from tests.dialects.talking import talking
from tests.gateway.serving import serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.dialects.factory import NAMES
from wicket_mcp.upstream.lifecycle import State

ECHO: dict[str, Any] = {"message": "hi"}
LOOKS: dict[tuple[str, str], dict[str, Any]] = {
    ("native", "find_tools"): {"query": "echo"},
    ("native", "describe_tools"): {"names": ["echo.echo"]},
    ("lua", "list-servers"): {},
    ("lua", "list-server-tools"): {"luaServerName": "echo"},
    ("lua", "tool-details"): {"luaServerName": "echo", "luaToolName": "echo"},
    ("meta", "TOOL_LIST"): {},
    ("meta", "TOOL_GET"): {"tool_name": "echo.echo"},
    ("chain", "search_tools"): {"task_description": "echo"},
    ("chain", "list_tools_meta"): {},
    ("chain", "tool_info"): {"tool_name": "echo.echo"},
    ("chain", "get_required_keys_for_tool"): {"tool_name": "echo.echo"},
    ("broker", "broker_search"): {"q": "echo"},
    ("bridge", "discover_mcp_servers"): {"query": "files"},
    ("bridge", "discover_smart"): {"query": "files"},
    ("bridge", "get_server_health"): {},
    ("bridge", "get_onboarding_state"): {},
}
CALLS: dict[tuple[str, str], dict[str, Any]] = {
    ("native", "call_tool"): {"name": "echo.echo", "arguments": ECHO},
    ("lua", "inspect-tool-response"): {"luaServerName": "echo", "luaToolName": "echo", "sampleArgs": ECHO},
    ("meta", "TOOL_CALL"): {"tool_name": "echo.echo", "arguments": ECHO},
    ("broker", "broker_invoke"): {"server": "echo", "tool": "echo", "args": ECHO},
    ("broker", "say"): ECHO,
    ("flat", "echo__echo"): ECHO,
    ("bridge", "invoke_tool"): {"endpoint": "echo", "tool_name": "echo", "arguments": ECHO},
    ("bridge", "added_echo"): ECHO,
}
SCRIPTS: dict[tuple[str, str], dict[str, Any]] = {
    ("native", "run_script"): {"code": "return await echo.echo(message='hi')"},
    ("lua", "execute"): {"script": "result(echo.echo({message = 'hi'}):await())"},
    ("chain", "call_tool_chain"): {"code": encode({"tool": "echo.echo", "arguments": ECHO}).decode()},
}
FOR_OTHERS = {
    ("native", "read_result"),
    *(("bridge", name) for name in ("register_server", "verify_domain", "check_domain_ownership")),
    *(("bridge", name) for name in ("install_mcp_server", "list_managed_servers", "control_mcp_server")),
    *(("bridge", name) for name in ("list_claude_servers", "remove_claude_server")),
    *(("chain", name) for name in ("register_manual", "deregister_manual")),
}
"""Tools that show only what is one's own, and those for publishers and administrators."""


@dataclass(frozen=True)
class Served:
    """A served gateway with one key for each of the scopes."""

    gateway: Gateway
    address: str
    keys: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    folder: Path = tmp_path_factory.mktemp("scopes")
    config = folder / "wicket.toml"
    config.write_text(
        f'state_dir = "state"\nallow_runtime_servers = true\nhttp.port = 0\n[servers.echo]\n'
        f"command = {encode(sys.executable).decode()}\nargs = {encode(peer('Echo')['args']).decode()}\n"
        f"[servers.library]\ncommand = {encode(sys.executable).decode()}\n"
        f"args = {encode([str(PEERS / 'library.py')]).decode()}\n"
    )
    (folder / "tools.overrides.json").write_bytes(
        encode({"overrides": [{"name": "say", "server": "echo", "tool": "echo"}]})
    )
    async with Gateway.open(config) as gateway, serve_http(gateway) as address:
        made = {
            scope: await gateway.registry.keys.create(scope, [scope])
            for scope in ("discover", "invoke", "register", "admin")
        }
        async with talking(address, dialect="chain") as talker:
            await talker.text("register_manual", manual_call_template={"name": "added", **peer("Echo")})
        yield Served(gateway, address, {scope: key for scope, (key, _) in made.items()})


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.promise("T8", "Every tool of every dialect is tried with every set of scopes.")
async def test_t8_every_tool_of_every_vocabulary_is_asked_about_here(served: Served) -> None:
    own: set[tuple[str, str]] = set()
    for dialect in NAMES:
        async with talking(served.address, served.keys["register"], dialect) as talker:
            own |= {(dialect, name) for name in await talker.names()}
    assert own == (set(LOOKS) | set(CALLS) | set(SCRIPTS) | FOR_OTHERS) - {
        ("broker", "say"),
        ("flat", "echo__echo"),
        ("bridge", "added_echo"),
    }


@pytest.mark.parametrize(("dialect", "tool"), [*LOOKS, *SCRIPTS])
@pytest.mark.parametrize("scope", ["invoke", "register"])
async def test_without_discover_no_tool_is_found(served: Served, dialect: str, tool: str, scope: str) -> None:
    arguments = LOOKS.get((dialect, tool)) or SCRIPTS.get((dialect, tool), {})
    async with talking(served.address, served.keys[scope], dialect) as talker:
        problem = await talker.problem(tool, **arguments)
    assert problem.removeprefix("❌ ").startswith("Authentication failed: ")
    assert "needs an API key with the scope 'discover'" in problem
    assert "wicket keys create NAME --scope discover" in problem


@pytest.mark.parametrize(("dialect", "tool"), [*CALLS, *SCRIPTS])
@pytest.mark.parametrize("scope", ["discover", "register"])
async def test_without_invoke_no_tool_is_called(served: Served, dialect: str, tool: str, scope: str) -> None:
    before = await served.gateway.registry.store.call_counts(0)
    async with talking(served.address, served.keys[scope], dialect) as talker:
        problem = await talker.problem(tool, **{**CALLS, **SCRIPTS}[dialect, tool])
    assert "Authentication failed: " in problem
    missing = "discover" if scope == "register" and (dialect, tool) in SCRIPTS else "invoke"
    assert f"needs an API key with the scope '{missing}'" in problem
    assert await served.gateway.registry.store.call_counts(0) == before, "no call reached the server"


@pytest.mark.parametrize(("dialect", "tool"), list(CALLS))
async def test_with_invoke_alone_tools_are_called_by_name(served: Served, dialect: str, tool: str) -> None:
    async with talking(served.address, served.keys["invoke"], dialect) as talker:
        assert "hi" in await talker.text(tool, **CALLS[dialect, tool])


@pytest.mark.parametrize(("dialect", "tool"), list(LOOKS))
async def test_with_discover_alone_tools_are_found(served: Served, dialect: str, tool: str) -> None:
    async with talking(served.address, served.keys["discover"], dialect) as talker:
        assert await talker.text(tool, **LOOKS[dialect, tool])


async def test_lists_leave_out_what_one_may_not_look_for(served: Served) -> None:
    for dialect, listed in (("broker", "say"), ("bridge", "added_echo")):
        for scope, seen in (("discover", True), ("invoke", False)):
            async with talking(served.address, served.keys[scope], dialect) as talker:
                assert (listed in await talker.names()) is seen
    async with talking(served.address, served.keys["discover"], "flat") as talker:
        assert "echo__echo" in await talker.names()
    async with talking(served.address, served.keys["invoke"], "flat") as talker:
        assert await talker.names() == set()
        assert "lacks the scope 'discover'" in (talker.client.instructions or "")


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments"),
    [
        ("native", "call_tool", {"name": "echo.ecoh", "arguments": {}}),
        ("native", "call_tool", {"name": "echo", "arguments": {}}),
        ("meta", "TOOL_CALL", {"tool_name": "ecoh", "arguments": {}}),
        ("lua", "inspect-tool-response", {"luaServerName": "ehco", "luaToolName": "echo"}),
        ("lua", "inspect-tool-response", {"luaServerName": "library", "luaToolName": "echo"}),
        ("broker", "broker_invoke", {"server": "ehco", "tool": "echo"}),
        ("bridge", "invoke_tool", {"endpoint": "ehco", "tool_name": "echo", "arguments": {}}),
    ],
)
async def test_a_wrong_name_tells_nothing_of_the_right_ones(
    served: Served, dialect: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with talking(served.address, served.keys["invoke"], dialect) as talker:
        result = await talker.call(tool, **arguments)
    assert result.is_error
    assert result.content[0].text.endswith("Looking for tools needs an API key with the scope 'discover'.")
    said = result.model_dump_json()
    given = encode(arguments).decode()
    for name in ("echo.echo", "added", "refuses", "release"):
        assert name not in said.replace(given, "")


async def test_the_instructions_name_no_server_to_those_who_may_not_look(served: Served) -> None:
    for scope, named in (("discover", True), ("invoke", False), ("register", False)):
        for mode in ("legacy", "auto"):
            async with talking(served.address, served.keys[scope], "native", mode) as talker:
                assert ("echo" in (talker.client.instructions or "")) is named


async def test_resources_and_prompts_follow_the_same_scopes(served: Served) -> None:
    looks = "scope 'discover'"
    async with talking(served.address, served.keys["invoke"], "native") as talker:
        client = talker.client
        uri = "mcp://library/book://one"
        assert (await client.read_resource(uri)).contents
        for asked in (client.list_resources, client.list_resource_templates, client.list_prompts):
            with pytest.raises(MCPError, match=looks):
                await asked()
        for address in ("wicket://tools", "wicket://overview", "wicket://tool/echo.echo", "wicket://backend/echo"):
            with pytest.raises(MCPError, match=looks):
                await client.read_resource(address)
        assert (await client.read_resource("wicket://recent")).contents, "what one did is one's own"
        with pytest.raises(MCPError, match=looks):
            await client.get_prompt("find_tool", {"task": "echo"})
        assert (await client.get_prompt("library/summary")).messages
    async with talking(served.address, served.keys["discover"], "native") as talker:
        assert (await talker.client.list_resources()).resources
        assert (await talker.client.read_resource("wicket://tools")).contents
        with pytest.raises(MCPError, match="scope 'invoke'"):
            await talker.client.read_resource(uri)
        with pytest.raises(MCPError, match="scope 'invoke'"):
            await talker.client.get_prompt("library/summary")


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_a_wrong_address_or_prompt_tells_nothing_of_the_right_ones(served: Served) -> None:
    for scope, told in (("invoke", False), ("admin", True)):
        key = served.keys[scope]
        async with talking(served.address, key, "native", "legacy") as talker:
            client = talker.client
            subscribe = client.subscribe_resource  # pyright: ignore[reportDeprecated]
            for asked, wrong, right in (
                (client.read_resource, "mcp://libary/book://one", "mcp://library/book://one"),
                (subscribe, "mcp://libary/book://one", "mcp://library/book://one"),
                (client.get_prompt, "library/sumary", "library/summary"),
            ):
                with pytest.raises(MCPError) as caught:
                    await asked(wrong)
                said = f"{caught.value.error.message} {caught.value.error.data}"
                assert (right in said) is told
                assert ("needs an API key with the scope 'discover'" in said) is not told


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("dialect", ["flat", "broker", "bridge", "native"])
async def test_without_invoke_a_name_is_not_looked_up_and_starts_no_server(
    tmp_path: Path, dialect: str, mode: Literal["auto", "legacy"]
) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text(
        f'state_dir = "state"\nhttp.port = 0\n[servers.echo]\n'
        f"command = {encode(sys.executable).decode()}\nargs = {encode(peer('Echo')['args']).decode()}\n"
    )
    (tmp_path / "tools.overrides.json").write_bytes(
        encode({"overrides": [{"name": "say", "server": "echo", "tool": "echo"}]})
    )
    async with Gateway.open(config) as gateway, serve_http(gateway) as address:
        key, _ = await gateway.registry.keys.create("ann", ["register"])
        async with talking(address, key, dialect, mode) as talker:
            known, own = {
                "flat": ("echo__echo", {}),
                "broker": ("say", {}),
                "bridge": ("echo_echo", {}),
                "native": ("call_tool", {"name": "echo.echo", "arguments": ECHO}),
            }[dialect]
            problem = await talker.problem(known, **own)
            assert "needs an API key with the scope 'invoke'" in problem
            if dialect != "native":
                assert await talker.problem("no_such_name") == problem
        assert not gateway.catalogue.now.listings
        assert gateway.pool.state("echo")[0] is State.IDLE


async def test_a_menu_with_all_tools_by_name_keeps_its_other_tools_for_those_who_only_look(tmp_path: Path) -> None:
    config = {
        "servers": {"echo": peer("Echo")},
        "state_dir": str(tmp_path),
        "http": {"port": 0},
        "dialects": ["flat", "native"],
    }
    async with Gateway.open(config) as gateway, serve_http(gateway) as address:
        key, _ = await gateway.registry.keys.create("ann", ["discover"])
        async with talking(address, key, "") as talker:
            assert "echo.echo" in await talker.text("find_tools", query="echo")
            assert "scope 'invoke'" in await talker.problem("echo__echo", **ECHO)


async def test_a_limit_on_invocations_holds_in_every_vocabulary_and_for_scripts(served: Served) -> None:
    key, _ = await served.gateway.registry.keys.create("few", ["discover", "invoke"], rates={"invocation": 3})
    for dialect, tool in (("native", "call_tool"), ("flat", "echo__echo"), ("bridge", "added_echo")):
        async with talking(served.address, key, dialect) as talker:
            assert await talker.text(tool, **CALLS[dialect, tool]) == "hi"
    for dialect, tool in (*CALLS, *SCRIPTS):
        async with talking(served.address, key, dialect) as talker:
            problem = await talker.problem(tool, **{**CALLS, **SCRIPTS}[dialect, tool])
            assert "Rate limit exceeded: 3 invocation requests an hour." in problem
