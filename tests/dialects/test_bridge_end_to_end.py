"""One server's whole life: registered, verified, found, installed, called, watched, stopped, removed; with restarts."""

from pathlib import Path
from typing import Any

from tests.conftest import OpenGateway
from tests.dialects.talking import talking
from tests.gateway.serving import serve_http
from tests.peers.dns_server import Names

REGISTRATION = {
    "name": "Tide Tables",
    "description": "Predicts high and low tides for harbours",
    "repository_url": "https://harbour.example/git/tide-tables",
    "category": "weather",
    "tags": ["tides", "harbour"],
    "npm_package": "@harbour/tide-tables",
}
SCOPES = ["discover", "register", "invoke", "admin"]


async def test_a_servers_life_from_registration_to_removal(open_gateway: OpenGateway, programs: Path) -> None:
    with Names() as names:
        options: dict[str, Any] = {
            "allow_runtime_servers": True,
            "registry": {"resolvers": [names.address], "probe_every": 0},
        }
        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            publisher, _ = await gateway.registry.keys.create("publisher", ["discover", "register"])
            admin, _ = await gateway.registry.keys.create("admin", SCOPES)
            async with talking(address, publisher) as talker:
                refused = await talker.problem("register_server", **REGISTRATION)
                assert "verify_domain with 'harbour.example'" in refused
                begun = await talker.value("verify_domain", domain="harbour.example")

        names.zone.records["_wicket.harbour.example"] = [begun["dns_record"]["value"]]

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, publisher) as talker:
                checked = await talker.value("check_domain_ownership", domain="harbour.example")
                assert (checked["status"], checked["method"]) == ("verified", "dns")
                made = await talker.value("register_server", **REGISTRATION)
                assert made["server_name"] == "example.harbour/tide-tables"
            async with talking(address, admin) as talker:
                advice = await talker.value("discover_smart", query="when is high tide in the harbour")
                best = advice["recommendations"][0]
                assert (best["id"], best["npm_package"]) == ("tide-tables", "@harbour/tide-tables")
                await talker.text("install_mcp_server", name="tides", type="npm", command=best["npm_package"])
                assert await talker.text("tides_echo", message="high tide") == "high tide"

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                assert "tides_echo" in await talker.names(), "installed servers outlive a restart"
                assert await talker.text("tides_echo", message="low tide") == "low tide"
                assert await gateway.registry.probes.round() == {"tides"}
                (health,) = (await talker.value("get_server_health", server_id="tide-tables"))["servers"]
                assert (health["status"], health["uptime_percentage"], health["error_rate"]) == ("healthy", 100, 0)
                found = await talker.value("discover_mcp_servers", query="tide tables")
                assert found["servers"][0]["health_score"] == health["health_score"]
                assert found["servers"][0]["usage_count"] == 2
                assert "echo" in found["servers"][0]["tools"]
                await talker.text("control_mcp_server", name="tides", action="stop")
                assert "tides_echo" not in await talker.names()

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                (stopped,) = await talker.value("list_managed_servers")
                assert stopped["status"] == "stopped"
                assert "tides_echo" not in await talker.names()
                await talker.text("control_mcp_server", name="tides", action="start")
                assert await talker.text("tides_echo", message="back") == "back"
                await talker.text("control_mcp_server", name="tides", action="remove")
                assert "tides_echo" not in await talker.names()

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                assert await talker.value("list_managed_servers") == []
                assert (await talker.value("discover_mcp_servers", query="tide tables"))["servers"][0][
                    "id"
                ] == "tide-tables"
