"""Metrics: what Prometheus reads, that its own tool accepts it, and that it is true."""

import asyncio
import contextlib
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from tests import needs
from tests.conftest import ROOT, OpenGateway, peer
from tests.gateway.serving import TOKEN, Raw, raw_client, serve_http
from tests.peers.ports import free_port

from wicket_mcp import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import WicketError
from wicket_mcp.model import Silent
from wicket_mcp.observing import MAX_TOOLS, CallCounter
from wicket_mcp.request import tool_call
from wicket_mcp.store.audit_file import AuditFile
from wicket_mcp.store.model import AuditQuery, CallRecord
from wicket_mcp.telemetry.metrics import FAMILIES, Metrics, render

SPECIFIED = {
    *("wicket_calls_total", "wicket_call_duration_seconds", "wicket_calls_in_flight", "wicket_upstream_up"),
    *("wicket_upstream_restarts_total", "wicket_upstream_in_flight", "wicket_sessions", "wicket_held_calls"),
    *("wicket_scripts_total", "wicket_results_bytes", "wicket_tokens_disclosed_total", "wicket_tools_changed_total"),
    *("wicket_oauth_refresh_total", "wicket_event_loop_lag_seconds", "wicket_audit_lost_total"),
}


@asynccontextmanager
async def served(open_gateway: OpenGateway, **servers: dict[str, object]) -> AsyncGenerator[tuple[Gateway, Raw]]:
    async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        yield gateway, client


async def scrape(client: Raw, token: str = TOKEN) -> tuple[int, str]:
    address = client.address.removesuffix("/mcp") + "/metrics"
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(address, headers=headers) as answer:
        return answer.status, await answer.text()


def values(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_a_scrape_tells_what_happened(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (gateway, client):
        await client.modern("tools/list")
        for name in ("echo.echo", "echo.fails", "echo.nothing"):
            given = {"name": name, "arguments": {"message": "hello"} if name == "echo.echo" else {}}
            await client.modern("tools/call", {"name": "call_tool", "arguments": given})
        await client.post({}, token="wrong")
        status, text = await scrape(client)
        assert status == 200
        read = values(text)
        assert read['wicket_calls_total{server="echo",tool="echo",outcome="ok"}'] == 1
        assert read['wicket_calls_total{server="echo",tool="fails",outcome="error"}'] == 1
        assert read['wicket_calls_total{server="",tool="",outcome="unknown_name"}'] == 1
        assert read['wicket_call_duration_seconds_count{server="echo"}'] == 2
        assert read['wicket_call_duration_seconds_bucket{server="echo",le="+Inf"}'] == 2
        assert read['wicket_upstream_up{server="echo"}'] == 1
        assert read["wicket_auth_failures_total"] == 1
        assert read['wicket_tokens_disclosed_total{dialect="native",kind="list"}'] > 100
        assert read['wicket_tokens_disclosed_total{dialect="native",kind="call"}'] > 1
        assert read["wicket_audit_lost_total"] == read["wicket_calls_in_flight"] == 0
        (rejected,) = [each for each in await gateway.store.find_calls(AuditQuery()) if each.method == "auth"]
        assert (rejected.outcome, rejected.principal) == ("rejected", "unknown 127.0.0.1")


async def test_messages_and_acts_are_no_calls_and_a_server_that_cannot_start_is_named(
    open_gateway: OpenGateway,
) -> None:
    async with served(open_gateway, echo=peer("Echo"), dead=peer("ExitsAtOnce")) as (gateway, client):
        gateway.audit.hear("echo", "info", "a message of its own")
        gateway.audit.act_on("local", "stop server", "echo")
        for made_up in ("dead.one", "dead.two"):
            with pytest.raises(WicketError):
                await gateway.call(made_up)
        text = (await scrape(client))[1]
        counted = {name: value for name, value in values(text).items() if name.startswith("wicket_calls_total")}
        assert counted == {'wicket_calls_total{server="dead",tool="",outcome="unavailable"}': 2}
        assert 'wicket_call_duration_seconds_count{server="dead"} 2' in text
        assert "wicket_call_duration_seconds_count" not in text.replace('_count{server="dead"}', "")


async def test_what_goes_on_is_read_when_somebody_asks(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (gateway, client):
        await gateway.call("echo.pid")
        slow = gateway.tasks.start(gateway.call("echo.slow"), "slow", awaited=True)
        while not gateway.pool.calls:
            await gateway.call("echo.pid")
        read = values((await scrape(client))[1])
        assert read["wicket_calls_in_flight"] == read['wicket_upstream_in_flight{server="echo"}'] == 1
        await gateway.call("echo.release")
        await slow
        assert values((await scrape(client))[1])["wicket_calls_in_flight"] == 0


async def test_what_was_counted_and_never_read_is_a_metric(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {"noisy": peer("WritesGarbage"), "dead": peer("ExitsAtOnce"), "echo": peer("Echo", max_concurrent=1)}
    async with served(open_gateway, **servers) as (gateway, client):
        before = values((await scrape(client))[1])["wicket_background_failures_total"]
        failing = gateway.tasks.start(_fail(), "water the plants")
        await asyncio.wait({failing})
        await gateway.verbs.call(tool_call("noisy.echo", {"message": "x"}, Silent()))
        state = ""
        while state != "broken":  # it is tried again and again
            with contextlib.suppress(WicketError):
                await gateway.pool.start("dead")
            state = gateway.pool.state("dead")[0]
        calls = [gateway.tasks.start(gateway.call("echo.slow"), "slow", awaited=True) for _ in range(3)]
        while sum(load.waiting for load in gateway.pool.loads()) < 2:
            await asyncio.sleep(0)
        read = values((await scrape(client))[1])
        for call_in_flight in calls:
            call_in_flight.cancel()
    assert read["wicket_background_failures_total"] == before + 1
    (record,) = [record for record in caplog.records if "water the plants" in record.getMessage()]
    assert record.levelname == "ERROR"
    assert read['wicket_upstream_strays_total{server="noisy"}'] > 0
    assert read['wicket_upstream_breaker_open{server="dead"}'] == 1
    assert read['wicket_upstream_waiting{server="echo"}'] == 2
    assert read["wicket_audit_waiting"] >= 0
    assert read["wicket_export_lost_total"] == read["wicket_outbox_dropped_total"] == 0


async def test_what_a_server_said_on_earlier_connections_stays_counted(open_gateway: OpenGateway) -> None:
    gone: dict[str, object] = {"command": "sh", "args": ["-c", "echo garbage; read line; exit 1"]}
    async with served(open_gateway, gone=gone, noisy=peer("WritesGarbage")) as (gateway, client):
        with pytest.raises(WicketError):
            await gateway.pool.start("gone")
        await gateway.call("noisy.echo", {"message": "x"})
        before = values((await scrape(client))[1])
        await gateway.pool.remove("noisy")
        after = values((await scrape(client))[1])
    strays = 'wicket_upstream_strays_total{server="noisy"}'
    assert before['wicket_upstream_strays_total{server="gone"}'] == 1
    assert after[strays] >= before[strays] > 0


async def test_audit_lines_that_wait_are_written_when_a_reload_removes_the_file(tmp_path: Path) -> None:
    file = AuditFile(Config.from_dict({"state_dir": str(tmp_path), "audit": {"file": str(tmp_path / "audit.jsonl")}}))
    file.record([call()])
    file.reconfigure(Config.from_dict({"state_dir": str(tmp_path)}))
    await file.close()
    assert '"tool":"echo"' in (tmp_path / "audit.jsonl").read_text("utf-8")
    assert file.lost == 0


async def _fail() -> None:
    raise RuntimeError("no water")


async def test_only_administrators_may_read_them(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (gateway, client):
        key, _ = await gateway.registry.keys.create("ann", {"discover", "invoke"})
        boss, _ = await gateway.registry.keys.create("boss", {"admin"})
        assert (await scrape(client, key))[0] == 403
        assert (await scrape(client, "nonsense"))[0] == 401
        assert (await scrape(client, boss))[0] == 200


def test_prometheus_accepts_every_metric_and_hostile_names() -> None:
    if shutil.which("promtool") is None:
        pytest.skip(needs.PROMETHEUS)
    metrics = Metrics()
    calls = CallCounter(metrics)
    metrics.read_from(calls.read)
    calls([call(tool='a"b\\c\nwicket_forged 1')])
    for name, family in FAMILIES.items():
        if family.kind == "counter":
            metrics.add(name, *("x" for _ in family.labels))
    text = render(metrics.read())
    assert "\nwicket_forged" not in text
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    problems = [line for line in done.stderr.splitlines() if "counter metrics should have" not in line]
    assert (done.returncode, problems) == (0, [])


def call(server: str = "x", tool: str = "echo", outcome: str = "ok") -> CallRecord:
    return CallRecord(1.0, "ann", server, tool, "", outcome, 12.0, 100, upstream_ms=10.0)


def test_tools_lose_their_label_when_there_are_many() -> None:
    metrics = Metrics()
    calls = CallCounter(metrics)
    metrics.read_from(calls.read)
    for number in range(MAX_TOOLS):
        calls([call(tool=f"t{number}")])
    assert 'tool="t1"' in render(metrics.read())
    for number in range(3):
        calls([call(tool=f"more{number}")])
    assert re.findall("^wicket_calls_total.*", render(metrics.read()), re.MULTILINE) == [
        f'wicket_calls_total{{server="x",tool="",outcome="ok"}} {MAX_TOOLS + 3}'
    ]


def test_an_address_of_a_resource_is_no_label() -> None:
    metrics = Metrics()
    calls = CallCounter(metrics)
    metrics.read_from(calls.read)
    calls([replace(call(tool="file:///secret"), method="resources/read")])
    assert "secret" not in render(metrics.read())


def test_every_metric_of_the_contract_exists_and_is_documented() -> None:
    assert set(FAMILIES) >= SPECIFIED
    page = (ROOT / "docs" / "observe.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(wicket_\w+)", page, re.MULTILINE)) == set(FAMILIES)


DEPLOY = ROOT / "deploy"


def test_the_shipped_rules_are_valid_and_use_metrics_that_exist() -> None:
    rules = DEPLOY / "alerts.yml"
    used = set(re.findall(r"\bwicket_\w+", rules.read_text("utf-8")))
    assert {_family(name) for name in used} <= set(FAMILIES)
    if shutil.which("promtool") is None:
        pytest.skip(needs.PROMETHEUS)
    done = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tests = DEPLOY / "alerts_test.yml"
    done = subprocess.run(["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shipped_dashboard_asks_for_metrics_that_exist() -> None:
    board = decode((DEPLOY / "grafana.json").read_bytes())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", []))
    used = set(re.findall(r"\bwicket_\w+", asked))
    assert len(used) > 10
    assert {_family(name) for name in used} <= set(FAMILIES)


def _family(name: str) -> str:
    return re.sub("_(bucket|sum|count)$", "", name)


async def test_metrics_have_a_port_of_their_own_where_nothing_else_is_served(open_gateway: OpenGateway) -> None:
    place = ("127.0.0.1", free_port())
    root = f"http://127.0.0.1:{place[1]}"
    async with open_gateway({"echo": peer("Echo")}) as gateway, aiohttp.ClientSession() as session:
        async with serve_http(gateway, metrics=place):
            await gateway.call("echo.pid")
            async with session.get(f"{root}/metrics") as answer:
                assert answer.status == 200
                assert 'wicket_calls_total{server="echo",tool="pid",outcome="ok"} 1' in await answer.text()
            async with session.get(f"{root}/metrics", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
            for path in ("/mcp", "/ui", "/v0.1/servers"):
                async with session.get(f"{root}{path}") as answer:
                    assert answer.status == 404
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{root}/metrics")
