"""The bridge vocabulary through a real MCP client: every example of its published description, and its errors."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.dialects.talking import Talker, talking
from tests.gateway.serving import raw_client, serve_http
from tests.peers.http_faults import HttpPeer
from tests.peers.sdk import sdk_addresses
from tests.peers.stdio_peer import RICH

LOOPBACK = {"allowed_addresses": ["127.0.0.1"]}


@pytest.fixture(scope="module")
def sdk() -> Iterator[dict[str, str]]:
    with sdk_addresses() as addresses:
        yield addresses


@asynccontextmanager
async def bridge(open_gateway: OpenGateway, **options: Any) -> AsyncGenerator[Talker]:
    servers = options.pop("servers", {})
    async with open_gateway(servers, **options) as gateway, serve_http(gateway) as address, talking(address) as talker:
        yield talker


async def test_it_shows_its_thirteen_tools(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        assert await talker.names() == {
            *("discover_mcp_servers", "discover_smart", "register_server", "verify_domain", "check_domain_ownership"),
            *("get_server_health", "get_onboarding_state", "invoke_tool", "install_mcp_server", "list_managed_servers"),
            *("control_mcp_server", "list_claude_servers", "remove_claude_server"),
        }


# Discovery


async def test_a_basic_search_answers_in_the_published_form(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        found = await talker.value("discover_mcp_servers", query="email management tools")
    assert (found["query"], found["total"] >= 1) == ("email management tools", True)
    best = found["servers"][0]
    assert best["id"] == "workspace-mcp"
    assert "search_gmail_messages" in best["tools"]
    assert {"name", "description", "author", "version", "category", "tags", "docker_image", "npm_package"} <= set(best)
    assert (best["health_score"], best["usage_count"]) == (None, 0), "what was never measured is not made up"


async def test_category_and_tags_narrow_a_search(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        found = await talker.value(
            "discover_mcp_servers", query="file operations", limit=5, category="storage", tags=["filesystem", "storage"]
        )
        assert [server["id"] for server in found["servers"]] == ["filesystem"]
        nothing = await talker.value("discover_mcp_servers", query="file operations", category="cooking")
        assert (nothing["servers"], nothing["total"]) == ([], 0)


async def test_a_limit_is_kept_and_a_wrong_one_refused(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        assert len((await talker.value("discover_mcp_servers", query="database", limit=3))["servers"]) == 3
        assert "limit" in await talker.problem("discover_mcp_servers", query="database", limit=51)
        assert (await talker.problem("discover_mcp_servers")).startswith("❌")


async def test_smart_discovery_takes_the_context_into_account(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        advice = await talker.value(
            "discover_smart",
            query="I need to automate my email workflow",
            context="I use Gmail and want to integrate with my task management",
            limit=3,
        )
    first = advice["recommendations"][0]
    assert first["id"] == "workspace-mcp"
    assert 0.35 <= first["confidence"] <= 1
    assert "'email'" in first["reason"]
    assert len(advice["recommendations"]) == 3
    covered = {need for one in advice["recommendations"] for need in one["covers"]}
    assert any("task management" in need for need in covered)


async def test_each_part_of_a_compound_need_is_served(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        advice = await talker.value("discover_smart", query="I need to manage my files and emails efficiently")
    covers = {one["id"]: one["covers"] for one in advice["recommendations"]}
    assert any("files" in need for need in covers["filesystem"])
    assert any("emails" in need for need in covers["workspace-mcp"])
    assert advice["uncovered"] == []


async def test_a_need_that_nothing_serves_is_said_to_be_uncovered(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        advice = await talker.value("discover_smart", query="read my emails and brew espresso with cinnamon")
    assert advice["uncovered"] == ["brew espresso with cinnamon"]


# Registry


REGISTRATION = {
    "name": "My Custom Server",
    "description": "A custom MCP server for my workflow",
    "repository_url": "https://github.com/user/my-mcp-server",
    "category": "productivity",
    "tags": ["custom", "workflow", "automation"],
    "npm_package": "@user/my-mcp-server",
}


async def test_a_registered_server_is_found_at_once(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        made = await talker.value("register_server", **REGISTRATION)
        assert (made["id"], made["server_name"]) == ("my-mcp-server", "io.github.user/my-mcp-server")
        found = await talker.value("discover_mcp_servers", query="my custom server for workflow", tags=["custom"])
        (server,) = found["servers"]
        assert server["name"] == "My Custom Server"
        assert server["npm_package"] == "@user/my-mcp-server"
        assert server["tags"] == ["custom", "workflow", "automation"]


async def test_a_domain_challenge_says_what_to_set_and_by_when(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        begun = await talker.value("verify_domain", domain="example.com")
        assert (begun["status"], begun["verified"]) == ("pending", False)
        assert begun["dns_record"]["name"] == "_wicket.example.com"
        assert begun["dns_record"]["value"].startswith("wicket-verify=")
        assert begun["file"]["url"] == "https://example.com/.well-known/mcp-registry-auth"
        assert "❌" in await talker.problem("verify_domain", domain="not a domain")
        assert "verify_domain" in await talker.problem("check_domain_ownership", domain="other.example")


# Monitoring


async def test_health_of_all_servers_comes_from_real_calls(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo"), "idle": peer("Echo")}) as gateway:
        for _ in range(3):
            await gateway.call("echo.echo", {"message": "hi"})
        async with serve_http(gateway) as address, talking(address) as talker:
            servers = {one["id"]: one for one in (await talker.value("get_server_health"))["servers"]}
    assert servers["echo"]["status"] == "healthy"
    assert servers["echo"]["health_score"] == 100
    assert servers["echo"]["uptime_percentage"] == 100
    assert servers["echo"]["error_rate"] == 0
    assert servers["echo"]["response_time"] >= 0
    assert servers["echo"]["last_check"].endswith("Z")
    assert servers["idle"]["status"] == "unknown"
    assert servers["idle"]["health_score"] is None


async def test_health_of_one_server_and_of_none(open_gateway: OpenGateway) -> None:
    async with bridge(open_gateway) as talker:
        (one,) = (await talker.value("get_server_health", server_id="filesystem"))["servers"]
        assert (one["id"], one["status"]) == ("filesystem", "unknown")
        assert (await talker.problem("get_server_health", server_id="gmial-server")).startswith("❌ Server not found")


# User management


async def test_onboarding_follows_what_was_really_done(open_gateway: OpenGateway, sdk: dict[str, str]) -> None:
    async with bridge(open_gateway, registry=LOOPBACK, allow_runtime_servers=True) as talker:
        state = await talker.value("get_onboarding_state")
        assert state["completed_steps"] == ["account_created"]
        await talker.value("discover_mcp_servers", query="files")
        state = await talker.value("get_onboarding_state")
        assert state == {
            "user_id": "local",
            "onboarding_complete": False,
            "completed_steps": ["account_created", "first_discovery"],
            "next_steps": ["install_first_server", "try_bridge_mode"],
            "recommended_servers": ["filesystem", "fetch"],
            "progress_percentage": 40,
        }
        await talker.text("install_mcp_server", name="sdk", type="remote", command=sdk["json"])
        await talker.text("sdk_echo", message="hi")
        await talker.text("invoke_tool", endpoint=sdk["json"], tool_name="echo", arguments={"message": "hi"})
        state = await talker.value("get_onboarding_state")
        assert (state["onboarding_complete"], state["progress_percentage"], state["next_steps"]) == (True, 100, [])


# Invocation


@pytest.mark.parametrize("transport", ["events", "json", "sse"])
async def test_a_tool_is_invoked_at_an_address(open_gateway: OpenGateway, sdk: dict[str, str], transport: str) -> None:
    async with bridge(open_gateway, registry=LOOPBACK) as talker:
        said = await talker.text(
            "invoke_tool", endpoint=sdk[transport], tool_name="echo", arguments={"message": "Hello from MCP Bridge!"}
        )
    assert said == "Hello from MCP Bridge!"


async def test_headers_are_really_sent_and_nothing_of_the_clients_own(open_gateway: OpenGateway) -> None:
    async with HttpPeer() as server, bridge(open_gateway, registry=LOOPBACK) as talker:
        await talker.call(
            "invoke_tool",
            endpoint=server.url,
            tool_name="protected_action",
            arguments={},
            headers={"Authorization": "Bearer server-token", "X-API-Key": "api-key"},
        )
        assert server.received
        for request in server.received:
            assert request.headers["authorization"] == "Bearer server-token"
            assert request.headers["x-api-key"] == "api-key"
            assert "cookie" not in request.headers


@pytest.mark.promise("T7", "A client's credentials for Wicket are never sent to a server.")
async def test_t7_what_lets_a_client_in_here_is_shown_to_no_server(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, registry=LOOPBACK) as gateway, serve_http(gateway) as address, HttpPeer() as server:
        key, _ = await gateway.registry.keys.create("ann", ["invoke"])
        async with talking(address, key) as talker:
            await talker.call("invoke_tool", endpoint=server.url, tool_name="x", arguments={})
        assert server.received
        for request in server.received:
            assert "authorization" not in request.headers
            assert key not in str(request)


async def test_results_pass_whole_and_errors_of_a_tool_stay_errors(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(f"{address}/bridge") as client:
            invocation: dict[str, Any] = {"endpoint": "echo", "tool_name": "rich", "arguments": {}}
            _, body = await client.modern("tools/call", {"name": "invoke_tool", "arguments": invocation})
            for key in ("content", "structuredContent", "vendorTop"):
                assert body["result"][key] == RICH[key]
        async with talking(address) as talker:
            failed = await talker.call("invoke_tool", endpoint="echo", tool_name="fails", arguments={})
            assert (failed.is_error, failed.content[0].text) == (True, "it went wrong")
            said = await talker.text(
                "invoke_tool", endpoint="echo", tool_name="echo", arguments='{"message": "as text"}'
            )
            assert said == "as text"


async def test_an_unreachable_server_a_missing_tool_and_a_private_address_are_told_apart(
    open_gateway: OpenGateway, sdk: dict[str, str]
) -> None:
    async with bridge(open_gateway, registry=LOOPBACK) as talker:
        gone = await talker.problem(
            "invoke_tool", endpoint="http://127.0.0.1:1/mcp", tool_name="send_email", arguments={}
        )
        assert gone.startswith("❌ Failed to invoke send_email: Server unreachable")
        unknown = await talker.problem("invoke_tool", endpoint="nowhere", tool_name="x", arguments={})
        assert unknown.startswith("❌ Failed to invoke x: Server not found: 'nowhere'")
    async with bridge(open_gateway) as talker:
        private = await talker.problem("invoke_tool", endpoint=sdk["json"], tool_name="echo", arguments={})
        assert "not a public address" in private


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "internal"},
        {"Cookie": "a=b"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Original-URL": "/admin"},
        {"Transfer-Encoding": "chunked"},
        {"Mcp-Session-Id": "stolen"},
        {"Metadata-Flavor": "Google"},
        {"X-API-Key": "a\r\nHost: b"},
        {"X-API-Key": "${env:HOME}"},
    ],
)
async def test_no_other_header_gets_out(open_gateway: OpenGateway, headers: dict[str, str]) -> None:
    async with HttpPeer() as server, bridge(open_gateway, registry=LOOPBACK) as talker:
        problem = await talker.problem("invoke_tool", endpoint=server.url, tool_name="x", arguments={}, headers=headers)
        assert problem.startswith("❌ Failed to invoke x")
        assert not server.received
