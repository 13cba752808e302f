"""One server's whole life: registered, verified, found, installed, called, watched, stopped, removed; with restarts."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway
from tests.dialects.talking import talking
from tests.gateway.serving import serve_http
from tests.peers.dns_server import Names

PACKAGE = "@modelcontextprotocol/server-memory"
REGISTRATION = {
    "name": "Harbour Log",
    "description": "Remembers which ships lie in the harbour, and since when",
    "repository_url": "https://harbour.example/git/harbour-log",
    "category": "shipping",
    "tags": ["ships", "harbour"],
    "npm_package": PACKAGE,
}
SHIP = {"name": "Beagle", "entityType": "ship", "observations": ["came in at high tide"]}
SCOPES = ["discover", "register", "invoke", "admin"]


@pytest.mark.node
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("package_managers")
async def test_a_servers_life_from_registration_to_removal(open_gateway: OpenGateway, tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "log.jsonl")}
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
                assert made["server_name"] == "example.harbour/harbour-log"
            async with talking(address, admin) as talker:
                advice = await talker.value("discover_smart", query="remember which ships lie in the harbour")
                best = advice["recommendations"][0]
                assert (best["id"], best["npm_package"]) == ("harbour-log", PACKAGE)
                command = f"{best['npm_package']}@2026.8.31"
                await talker.text("install_mcp_server", name="log", type="npm", command=command, env=env)
                assert "Beagle" in await talker.text("log_create_entities", entities=[SHIP])

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                assert "log_search_nodes" in await talker.names(), "installed servers outlive a restart"
                assert "came in at high tide" in await talker.text("log_search_nodes", query="Beagle")
                assert await gateway.registry.probes.round() == {"log"}
                (health,) = (await talker.value("get_server_health", server_id="harbour-log"))["servers"]
                assert (health["status"], health["uptime_percentage"], health["error_rate"]) == ("healthy", 100, 0)
                found = await talker.value("discover_mcp_servers", query="harbour log")
                assert found["servers"][0]["health_score"] == health["health_score"]
                assert found["servers"][0]["usage_count"] == 2
                assert "search_nodes" in found["servers"][0]["tools"]
                await talker.text("control_mcp_server", name="log", action="stop")
                assert "log_search_nodes" not in await talker.names()

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                (stopped,) = await talker.value("list_managed_servers")
                assert stopped["status"] == "stopped"
                assert "log_search_nodes" not in await talker.names()
                await talker.text("control_mcp_server", name="log", action="start")
                assert "came in at high tide" in await talker.text("log_search_nodes", query="Beagle")
                await talker.text("control_mcp_server", name="log", action="remove")
                assert "log_search_nodes" not in await talker.names()

        async with open_gateway({}, **options) as gateway, serve_http(gateway) as address:
            async with talking(address, admin) as talker:
                assert await talker.value("list_managed_servers") == []
                found = await talker.value("discover_mcp_servers", query="harbour log")
                assert found["servers"][0]["id"] == "harbour-log"
