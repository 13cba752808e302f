"""Installing, controlling and removing servers, here and in Claude Desktop; and who may."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import OpenGateway, peer
from tests.dialects.talking import Talker, talking
from tests.gateway.serving import TOKEN, serve_http
from tests.peers.sdk import sdk_addresses

OPTIONS: dict[str, Any] = {"allow_runtime_servers": True, "registry": {"allowed_addresses": ["127.0.0.1"]}}


@pytest.fixture(scope="module")
def sdk() -> Iterator[dict[str, str]]:
    with sdk_addresses() as addresses:
        yield addresses


@asynccontextmanager
async def bridge(open_gateway: OpenGateway, **options: Any) -> AsyncGenerator[Talker]:
    async with open_gateway({"echo": peer("Echo")}, **{**OPTIONS, **options}) as gateway:
        async with serve_http(gateway) as address, talking(address) as talker:
            yield talker


@pytest.mark.promise("T2", "A client can install or start something only if the configuration allows it.")
async def test_t2_nothing_can_be_installed_unless_the_configuration_says_so(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway, allow_runtime_servers=False) as talker:
        for tool, arguments in (
            ("install_mcp_server", {"name": "x", "type": "npm", "command": "x"}),
            ("install_mcp_server", {"name": "x", "type": "npm", "command": "x", "mode": "direct"}),
            ("control_mcp_server", {"name": "echo", "action": "stop"}),
            ("remove_claude_server", {"name": "x"}),
        ):
            assert "allow_runtime_servers = true" in await talker.problem(tool, **arguments)


async def test_only_an_administrator_manages_servers(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address:
        key, _ = await gateway.registry.keys.create("ann", ["discover", "register", "invoke"])
        async with talking(address, key) as talker:
            for tool, arguments in (
                ("install_mcp_server", {"name": "x", "type": "npm", "command": "x"}),
                ("list_managed_servers", {}),
                ("control_mcp_server", {"name": "x", "action": "start"}),
                ("list_claude_servers", {}),
                ("remove_claude_server", {"name": "x"}),
            ):
                problem = await talker.problem(tool, **arguments)
                assert problem.startswith(f"❌ Authentication failed: {tool} needs an API key with the scope 'admin'")


async def test_a_key_does_what_its_scopes_say_in_every_vocabulary(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}, **OPTIONS) as gateway, serve_http(gateway) as address:
        reader, _ = await gateway.registry.keys.create("reader", ["discover"])
        async with talking(address, reader) as talker:
            await talker.value("discover_mcp_servers", query="files")
            assert "scope 'register'" in await talker.problem("verify_domain", domain="example.com")
            assert "scope 'invoke'" in await talker.problem(
                "invoke_tool", endpoint="echo", tool_name="echo", arguments={"message": "x"}
            )
        async with talking(address, reader, dialect="native") as talker:
            assert "scope 'invoke'" in await talker.problem("call_tool", name="echo.echo", arguments={"message": "x"})
        caller, _ = await gateway.registry.keys.create("caller", ["invoke"])
        async with talking(address, caller, dialect="native") as talker:
            assert await talker.text("call_tool", name="echo.echo", arguments={"message": "x"}) == "x"


async def test_a_limit_answers_in_the_published_words(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        key, _ = await gateway.registry.keys.create("ann", ["discover"], rates={"discovery": 2})
        async with talking(address, key) as talker:
            await talker.value("discover_mcp_servers", query="files")
            await talker.value("discover_smart", query="files")
            problem = await talker.problem("discover_mcp_servers", query="files")
            words = "❌ Rate limit exceeded: 2 discovery requests an hour. Wait {} seconds and try again."
            assert problem in {words.format(wait) for wait in range(1700, 1801)}


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("npm", "-c 'rm -rf /'"),
        ("npm", "--package=x"),
        ("npm", "../evil"),
        ("npm", "/bin/sh -c id"),
        ("npm", "git+https://evil.example/x"),
        ("npm", "https://evil.example/x.tgz"),
        ("npm", "x@file:/etc"),
        ("npm", "x;id"),
        ("npm", "'unclosed"),
        ("npm", "x ${env:HOME}"),
        ("pypi", "--proxy=https://evil.example x"),
        ("pypi", "./x"),
        ("docker", "--privileged x"),
        ("docker", "-v/:/host x"),
        ("docker", "IMAGE"),
        ("remote", "http://127.0.0.2/mcp"),
        ("remote", "https://10.0.0.1/mcp"),
        ("remote", "file:///etc/passwd"),
        ("remote", "https://x.example/${env:HOME}"),
    ],
)
@pytest.mark.usefixtures("careless_programs")
async def test_what_is_no_package_is_never_started(open_gateway: OpenGateway, kind: str, command: str) -> None:
    async with bridge(open_gateway) as talker:
        assert (await talker.problem("install_mcp_server", name="x", type=kind, command=command)).startswith("❌")
        assert await talker.value("list_managed_servers") == []


async def test_a_taken_name_is_refused_be_it_configured_or_installed(
    open_gateway: OpenGateway, sdk: dict[str, str]
) -> None:
    async with bridge(open_gateway) as talker:
        assert await talker.problem("install_mcp_server", name="ECHO", type="remote", command=sdk["json"]) == (
            "❌ Server 'ECHO' already exists. Use control_mcp_server to manage it."
        )
        await talker.text("install_mcp_server", name="sdk", type="remote", command=sdk["json"])
        assert "already exists" in await talker.problem(
            "install_mcp_server", name="sdk", type="remote", command=sdk["json"]
        )


async def test_control_says_what_it_did_and_what_is_wrong(open_gateway: OpenGateway, sdk: dict[str, str]) -> None:
    async with bridge(open_gateway) as talker:
        said = await talker.text(
            "install_mcp_server", name="sdk", type="remote", command=sdk["events"], auto_start=False
        )
        assert said == "✅ Installed sdk (remote, bridge mode)\nUse control_mcp_server to start."
        assert "sdk_echo" not in await talker.names()
        assert await talker.text("control_mcp_server", name="sdk", action="start") == "✅ Started server 'sdk'"
        assert "sdk_echo" in await talker.names()
        assert "already running" in await talker.problem("control_mcp_server", name="sdk", action="start")
        assert await talker.text("control_mcp_server", name="sdk", action="restart") == "✅ Restarted server 'sdk'"
        assert await talker.text("sdk_echo", message="again") == "again"
        assert await talker.text("control_mcp_server", name="sdk", action="stop") == "✅ Stopped server 'sdk'"
        assert "sdk_echo" not in await talker.names()
        assert "not running" in await talker.problem("control_mcp_server", name="sdk", action="stop")
        assert await talker.text("control_mcp_server", name="sdk", action="remove") == "✅ Removed server 'sdk'"
        assert await talker.problem("control_mcp_server", name="sdk", action="start") == (
            "❌ Server 'sdk' not found. Use list_managed_servers to see available servers."
        )
        assert "not found" in await talker.problem("control_mcp_server", name="echo", action="remove")


async def test_a_client_that_listens_hears_of_tools_that_come_and_go(
    open_gateway: OpenGateway, sdk: dict[str, str]
) -> None:
    heard = anyio.Event()

    async def hear(message: Any) -> None:
        if "list_changed" in str(message):
            heard.set()

    async with open_gateway({}, **OPTIONS) as gateway, serve_http(gateway) as address, talking(address) as talker:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(
                streamable_http_client(f"{address}/bridge", http_client=http), mode="legacy", message_handler=hear
            ) as listener,
        ):
            before = {tool.name for tool in (await listener.list_tools()).tools}
            await talker.text("install_mcp_server", name="sdk", type="remote", command=sdk["json"])
            with anyio.fail_after(5):
                await heard.wait()
            after = {tool.name for tool in (await listener.list_tools()).tools}
    assert "sdk_echo" in after - before


@pytest.mark.node
async def test_direct_mode_writes_claude_desktops_file_and_leaves_the_rest(
    open_gateway: OpenGateway, home: Path
) -> None:
    file = home / ".config" / "Claude" / "claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"theme": "dark", "mcpServers": {"old": {"command": "old", "args": ["--token", "abc123"]}}})
    )
    async with bridge(open_gateway) as talker:
        said = await talker.text(
            "install_mcp_server", name="new", type="npm", command="@x/new", mode="direct", env={"KEY": "top-secret"}
        )
        assert said.startswith("✅ Installed new (npm, direct mode)\n🔄 Please restart Claude Desktop")
        written = json.loads(file.read_text())
        assert written["theme"] == "dark"
        assert written["mcpServers"]["new"] == {
            "command": "npx",
            "args": ["-y", "@x/new"],
            "env": {"KEY": "top-secret"},
        }
        listed = await talker.text("list_claude_servers")
        assert "top-secret" not in listed
        assert "abc123" not in listed
        assert [entry["name"] for entry in json.loads(listed)] == ["new", "old"]
        assert "already exists" in await talker.problem(
            "install_mcp_server", name="new", type="npm", command="@x/new", mode="direct"
        )
        assert (await talker.text("remove_claude_server", name="new")).startswith(
            "✅ Removed 'new' from Claude Desktop"
        )
        assert set(json.loads(file.read_text())["mcpServers"]) == {"old"}
        assert await talker.problem("remove_claude_server", name="new") == (
            "❌ Server 'new' not found in Claude Desktop config."
        )


@pytest.mark.node
async def test_a_file_of_claude_desktop_that_is_broken_is_never_written(open_gateway: OpenGateway, home: Path) -> None:
    file = home / ".config" / "Claude" / "claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"mcpServers": {broken')
    async with bridge(open_gateway) as talker:
        await talker.problem("install_mcp_server", name="new", type="npm", command="x", mode="direct")
        await talker.problem("remove_claude_server", name="new")
    assert file.read_text() == '{"mcpServers": {broken'
