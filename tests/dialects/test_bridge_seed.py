"""Every example of the bridge vocabulary's published description, in its words, through a real MCP client."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.dialects.talking import Talker, talking
from tests.gateway.serving import serve_http
from tests.peers import mail_server
from tests.peers.sdk import sdk_addresses
from wicket_mcp.app import Gateway
from wicket_mcp.model import LOCAL

PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
AUTHORIZED = {"Authorization": f"Bearer {mail_server.TOKEN}"}
EMAIL = {"to": "user@example.com", "subject": "Hello from MCP Bridge!", "body": "This email was sent via invoke_tool"}


@pytest.fixture(scope="module")
def mail() -> Iterator[str]:
    with sdk_addresses("mail_server.py") as addresses:
        yield addresses["mail"]


def gmail(address: str) -> dict[str, Any]:
    """The server of the description's answers, at an address where there is one."""
    about = {
        "category": "communication",
        "tags": ["email", "gmail", "google"],
        "author": "example-org",
        "tools": ["send_email", "read_inbox", "search_emails"],
    }
    packages = [
        {"registryType": kind, "identifier": identifier, "transport": {"type": "stdio"}}
        for kind, identifier in (("oci", "mcplookup/gmail-server:latest"), ("npm", "@mcplookup/gmail-server"))
    ]
    return {
        "name": "io.github.example-org/gmail-server",
        "title": "Gmail MCP Server",
        "description": "Manage Gmail emails via MCP",
        "version": "1.0.0",
        "packages": packages,
        "remotes": [{"type": "streamable-http", "url": address}],
        "_meta": {PUBLISHER: about},
    }


@asynccontextmanager
async def bridge(open_gateway: OpenGateway, mail: str, **options: Any) -> AsyncGenerator[tuple[Gateway, Talker]]:
    registry = {"allowed_addresses": ["127.0.0.1"], "probe_every": 0}
    async with open_gateway({"echo": peer("Echo")}, registry=registry, **options) as gateway:
        await gateway.registry.registry.publish(gmail(mail), LOCAL)
        async with serve_http(gateway) as address, talking(address) as talker:
            yield gateway, talker


async def test_discover_mcp_servers_answers_as_described(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (_, talker):
        found = await talker.value("discover_mcp_servers", query="email management tools")
        assert (found["query"], found["total"] >= len(found["servers"])) == ("email management tools", True)
        (server,) = [one for one in found["servers"] if one["id"] == "gmail-server"]
        assert server == {
            "id": "gmail-server",
            "name": "Gmail MCP Server",
            "description": "Manage Gmail emails via MCP",
            "author": "example-org",
            "version": "1.0.0",
            "category": "communication",
            "tags": ["email", "gmail", "google"],
            "docker_image": "mcplookup/gmail-server:latest",
            "npm_package": "@mcplookup/gmail-server",
            "pypi_package": None,
            "endpoint": mail,
            "tools": ["send_email", "read_inbox", "search_emails"],
            "health_score": None,
            "usage_count": 0,
        }


async def test_an_advanced_search_keeps_to_its_filters(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (_, talker):
        registration = {"repository_url": "https://github.com/user/desk-files", "category": "productivity"}
        await talker.value(
            "register_server",
            name="Desk Files",
            description="File operations for office work",
            tags=["storage"],
            **registration,
        )
        found = await talker.value(
            "discover_mcp_servers",
            query="file operations",
            limit=5,
            category="productivity",
            tags=["filesystem", "storage"],
        )
        assert [one["id"] for one in found["servers"]] == ["desk-files"]


async def test_get_server_health_of_all_and_of_one(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (_, talker):
        await talker.text("invoke_tool", endpoint=mail, tool_name="send_email", arguments=EMAIL, headers=AUTHORIZED)
        (server,) = (await talker.value("get_server_health", server_id="gmail-server"))["servers"]
        assert (server["id"], server["name"], server["status"]) == ("gmail-server", "Gmail MCP Server", "healthy")
        assert (server["health_score"], server["uptime_percentage"], server["error_rate"]) == (100, 100, 0)
        assert server["last_check"].endswith("Z")
        assert isinstance(server["response_time"], int)
        every = (await talker.value("get_server_health"))["servers"]
        assert {one["id"] for one in every} == {"echo", "gmail-server"}
        found = await talker.value("discover_mcp_servers", query="gmail emails")
        (known,) = [one for one in found["servers"] if one["id"] == "gmail-server"]
        assert (known["health_score"], known["usage_count"]) == (100, 1)


async def test_invoke_tool_sends_the_arguments_and_the_headers(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (_, talker):
        said = await talker.text(
            "invoke_tool", endpoint=mail, tool_name="send_email", arguments=EMAIL, headers=AUTHORIZED
        )
        assert said == "Sent 'Hello from MCP Bridge!' to user@example.com: This email was sent via invoke_tool"
        refused = await talker.problem("invoke_tool", endpoint=mail, tool_name="send_email", arguments=EMAIL)
        assert refused.startswith("❌ Failed to invoke send_email: ")
        assert "401" in refused


async def test_from_discovery_to_invocation(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (_, talker):
        discovery = await talker.value("discover_mcp_servers", query="email automation")
        endpoint = next(server["endpoint"] for server in discovery["servers"] if server["endpoint"])
        arguments = {"to": "team@company.com", "subject": "Weekly Report"}
        said = await talker.text(
            "invoke_tool", endpoint=endpoint, tool_name="send_email", arguments=arguments, headers=AUTHORIZED
        )
        assert said == "Sent 'Weekly Report' to team@company.com: nothing"


async def test_each_of_the_common_errors_has_its_words(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (gateway, talker):
        unknown = await talker.problem("get_server_health", server_id="no-such-server")
        assert unknown.startswith("❌ Server not found: 'no-such-server'.")
        gone = await talker.problem(
            "invoke_tool", endpoint="http://127.0.0.1:1/mcp", tool_name="send_email", arguments=EMAIL
        )
        assert gone.startswith("❌ Failed to invoke send_email: Server unreachable: ")
        for endpoint, headers, words in (("echo", {}, "not found"), (mail, AUTHORIZED, "Unknown tool")):
            missing = await talker.problem(
                "invoke_tool", endpoint=endpoint, tool_name="send_mail", arguments={}, headers=headers
            )
            assert "send_mail" in missing
            assert words in missing
        key, _ = await gateway.registry.keys.create("reader", ["discover"], rates={"discovery": 1})
        async with talking(talker.address, key) as reader:
            await reader.value("discover_mcp_servers", query="files")
            limited = await reader.problem("discover_mcp_servers", query="files")
            assert limited.startswith("❌ Rate limit exceeded: ")
            denied = await reader.problem("verify_domain", domain="example.com")
            assert denied.startswith("❌ Authentication failed: ")


async def test_onboarding_is_each_keys_own(open_gateway: OpenGateway, mail: str) -> None:
    async with bridge(open_gateway, mail) as (gateway, talker):
        ann, _ = await gateway.registry.keys.create("ann", ["discover"])
        bob, _ = await gateway.registry.keys.create("bob", ["discover"])
        async with talking(talker.address, ann) as one, talking(talker.address, bob) as other:
            await one.value("discover_smart", query="files")
            state = await one.value("get_onboarding_state")
            assert (state["user_id"], state["progress_percentage"]) == ("ann", 40)
            assert state["completed_steps"] == ["account_created", "first_discovery"]
            assert state["next_steps"] == ["install_first_server", "try_bridge_mode"]
            state = await other.value("get_onboarding_state")
            assert (state["user_id"], state["completed_steps"]) == ("bob", ["account_created"])
