"""What a scrape says once a thing has happened: each metric with a value that comes from a real event."""

from pathlib import Path

import aiohttp
import pytest
from tests.conftest import OpenGateway, peer
from tests.eras.test_held import LINKS, asking
from tests.gateway.serving import TOKEN, Raw, serve_http
from tests.gateway.test_http import legacy_session
from tests.identity.test_sign_in import sign_in
from tests.peers.protected import Protected
from tests.surface.test_dashboard import Visitor
from tests.telemetry.test_metrics import scrape, served, values

from wicket_mcp.codec import encode
from wicket_mcp.errors import Crashed, NeedsSignIn


async def read(client: Raw) -> dict[str, float]:
    return values((await scrape(client))[1])


async def test_scripts_are_counted_by_language_and_outcome(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (_, client):
        for code in ("return echo.echo({message = 'one'})", "return 2", "error('no')"):
            script = {"language": "lua", "code": code}
            await client.modern("tools/call", {"name": "run_script", "arguments": script})
        counted = await read(client)
        assert counted['wicket_scripts_total{language="lua",outcome="done"}'] == 2
        assert counted['wicket_scripts_total{language="lua",outcome="error"}'] == 1


async def test_tools_that_appear_change_and_disappear_are_counted(open_gateway: OpenGateway, tmp_path: Path) -> None:
    listing = tmp_path / "listing.json"

    def offer(*tools: tuple[str, str]) -> None:
        kinds = [{"name": name, "description": words, "inputSchema": {"type": "object"}} for name, words in tools]
        listing.write_bytes(encode({"tools": kinds}))

    offer(("stays", "It stays."), ("changes", "Before."), ("goes", "It goes."))
    async with served(open_gateway, x=peer("Mutates", env={"LISTING": str(listing)})) as (gateway, client):
        await gateway.catalogue.renew("x")
        assert (await read(client)).get('wicket_tools_changed_total{server="x"}', 0) == 0
        offer(("stays", "It stays."), ("changes", "After."), ("comes", "It is new."))
        await gateway.catalogue.renew("x")
        assert (await read(client))['wicket_tools_changed_total{server="x"}'] == 3


async def test_restarts_are_counted_and_stay_counted_when_the_connection_is_gone(open_gateway: OpenGateway) -> None:
    restarts = 'wicket_upstream_restarts_total{server="x"}'
    async with served(open_gateway, x=peer("DiesMidCall")) as (gateway, client):
        await gateway.call("x.pid")
        assert (await read(client))[restarts] == 0
        with pytest.raises(Crashed):
            await gateway.call("x.slow")
        await gateway.call("x.pid")
        assert (await read(client))[restarts] == 1
        for upstream in gateway.pool.release_connections("x"):
            await upstream.retire()
        assert (await read(client))[restarts] == 1
        await gateway.call("x.pid")
        with pytest.raises(Crashed):
            await gateway.call("x.slow")
        await gateway.call("x.pid")
        assert (await read(client))[restarts] == 2


async def test_sessions_are_those_that_are_open(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (_, client):
        session = await legacy_session(client)
        await legacy_session(client)
        assert (await read(client))["wicket_sessions"] == 2
        headers = {**session, "Authorization": f"Bearer {TOKEN}"}
        async with client.session.delete(client.address, headers=headers) as ended:
            assert ended.status == 200
        assert (await read(client))["wicket_sessions"] == 1


async def test_held_calls_are_those_that_wait_for_their_client(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway, LINKS[0]) as (asker, _):
        state, replies = await asker.asked("ask_form", {"message": "Name?"})
        assert (await read(asker.raw))["wicket_held_calls"] == 1
        await asker.call("ask_form", {"message": "Name?"}, requestState=state, inputResponses=replies)
        assert (await read(asker.raw))["wicket_held_calls"] == 0


async def test_the_characters_of_results_are_counted(open_gateway: OpenGateway) -> None:
    async with served(open_gateway, echo=peer("Echo")) as (gateway, client):
        for message in ("a" * 100, "b" * 1000):
            await gateway.call("echo.echo", {"message": message})
        counted = await read(client)
    assert counted["wicket_results_bytes_sum"] == 1100
    assert counted['wicket_results_bytes_bucket{le="256"}'] == 1
    assert counted["wicket_results_bytes_count"] == counted['wicket_results_bytes_bucket{le="1024"}'] == 2


async def test_the_lag_of_the_loop_is_how_long_it_was_held(
    open_gateway: OpenGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(open_gateway) as (_, client):
        before = (await read(client))["wicket_event_loop_held_total"]
        while not any("the event loop has been held" in record.getMessage() for record in caplog.records):
            pass  # nothing else can run, until the watchdog says so
        counted = await read(client)
    assert counted["wicket_event_loop_lag_seconds"] >= 0.25
    assert counted["wicket_event_loop_held_total"] > before


async def test_records_that_cannot_be_written_are_counted_as_lost(open_gateway: OpenGateway, tmp_path: Path) -> None:
    audit = {"file": str(tmp_path)}  # a folder
    async with open_gateway({"echo": peer("Echo")}, audit=audit) as gateway, serve_http(gateway) as address:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            client = Raw(session, address)
            await gateway.call("echo.pid")
            while not (await read(client))["wicket_audit_lost_total"]:
                pass  # it is being written; the test's own time limit is the deadline
            assert (await read(client))["wicket_audit_lost_total"] == gateway.lost_records >= 1
            visitor = Visitor(client.session, address.removesuffix("/mcp"))
            await visitor.sign_in()
            assert "Audit records were lost" in (await visitor.get("/ui"))[1]
            assert "could not be kept since the gateway started" in (await visitor.get("/ui/activity"))[1]


async def test_renewals_of_a_sign_in_are_counted_by_outcome(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, served(open_gateway, x={"url": remote.url}) as (gateway, client):
        await sign_in(gateway)
        await gateway.call("x.whoami")
        remote.tokens.clear()
        await gateway.call("x.whoami")
        assert (await read(client))['wicket_oauth_refresh_total{server="x",outcome="ok"}'] == 1
        remote.tokens.clear()
        remote.refresh_tokens.clear()
        with pytest.raises(NeedsSignIn):
            await gateway.call("x.whoami")
        assert (await read(client))['wicket_oauth_refresh_total{server="x",outcome="refused"}'] == 1
