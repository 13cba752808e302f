"""Prometheus itself, from Debian: it scrapes a gateway as the documentation says, and answers what Grafana asks."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests import needs
from tests.conftest import ROOT, OpenGateway, peer
from tests.gateway.serving import TOKEN, raw_client, serve_http
from tests.peers.ports import free_port

from wicket_mcp.codec import decode

PROMETHEUS = shutil.which("prometheus")
DEPLOY = ROOT / "deploy"
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: wicket
    authorization: {{ credentials_file: "{token}" }}
    static_configs: [{{ targets: ["{target}"] }}]
"""
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason=needs.PROMETHEUS)


class Prometheus:
    """A running one, asked over its own interface."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session, self._address = session, address

    async def ask(self, path: str, **params: str) -> Any:
        """Its answer; None while it is still starting."""
        try:
            async with self._session.get(f"{self._address}/api/v1/{path}", params=params) as answer:
                return decode(await answer.read()) if answer.content_type == "application/json" else None
        except aiohttp.ClientConnectionError:
            return None

    async def wait_for(self, expression: str) -> list[Any]:
        """What it knows about this, as soon as it knows something; the test's own time limit is the deadline."""
        while not ((answer := await self.ask("query", query=expression)) and answer["data"]["result"]):
            await asyncio.sleep(0)
        return answer["data"]["result"]


@asynccontextmanager
async def scraping(target: str, folder: Path) -> AsyncGenerator[Prometheus]:
    (folder / "token").write_text(TOKEN)
    configuration = CONFIGURATION.format(rules=DEPLOY / "alerts.yml", token=folder / "token", target=target)
    (folder / "prometheus.yml").write_text(configuration)
    assert PROMETHEUS is not None
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            yield Prometheus(session, f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        await process.wait()


async def test_prometheus_scrapes_loads_the_rules_and_answers_every_panel_of_grafana(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    board = decode((DEPLOY / "grafana.json").read_bytes())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        await gateway.call("echo.pid")
        async with raw_client(address) as client:
            await client.modern("tools/list")
        target = address.removesuffix("/mcp").removeprefix("http://")
        async with scraping(target, tmp_path) as prometheus:
            (called,) = await prometheus.wait_for('wicket_calls_total{outcome="ok"}')
            rules = await prometheus.ask("rules")
            answers = {
                expression: await prometheus.ask("query", query=expression.replace("$__rate_interval", "1m"))
                for expression in expressions
            }
            (up,) = await prometheus.wait_for("up")
    assert (called["metric"]["server"], called["metric"]["tool"], called["value"][1]) == ("echo", "pid", "1")
    assert up["value"][1] == "1"
    assert {rule["health"] for group in rules["data"]["groups"] for rule in group["rules"]} <= {"ok", "unknown"}
    assert len(rules["data"]["groups"][0]["rules"]) == (DEPLOY / "alerts.yml").read_text("utf-8").count("alert:")
    assert {expression for expression, answer in answers.items() if answer["status"] != "success"} == set()
    gauges = ("wicket_upstream_up", "wicket_calls_in_flight", "sum(wicket_upstream_waiting)")
    assert all(answers[gauge]["data"]["result"] for gauge in gauges)
