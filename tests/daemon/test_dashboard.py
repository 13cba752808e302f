"""The dashboard of the daemon that clients share: it shows all of them, and opens for its owner alone."""

import asyncio
import re

import aiohttp
import pytest

from tests.conftest import peer
from tests.daemon.conftest import Machine, call
from tests.daemon.test_faults import slow
from tests.peers.postgres import free_port
from wicket_mcp.daemon.control import find_daemons
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.surface.daemons import Daemons


async def test_the_dashboard_shows_the_clients_and_calls_of_all(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")}, f"[http]\nport = {free_port()}\n")
    config = str(machine.folder / "wicket.toml")
    code, _, problem = await machine.run("dashboard", "--no-open", "--config", config)
    assert (code != 0, "no client has started a daemon" in problem) == (True, True)
    first, second = await machine.client(), await machine.client()
    await call(second, "a.pid")
    first.send(slow(9))
    code, out, problem = await machine.run("dashboard", "--no-open", "--config", config)
    assert code == 0, problem
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        root = out.strip().partition("/ui/")[0]
        async with session.get(f"{root}/ui/access") as answer:
            assert "Connected clients" not in await answer.text()  # a stranger
        async with session.get(out.strip()) as answer:
            assert (answer.status, "Overview" in await answer.text()) == (200, True)
        async with session.get(f"{root}/ui/access") as answer:
            assert len(re.findall("<td>stdio</td>", await answer.text())) == 2
        page = ""
        async with asyncio.timeout(20):
            while "<strong>a.slow</strong>" not in page:
                async with session.get(f"{root}/ui/activity?live=1") as answer:
                    page = await answer.text()
        assert "a.</span>pid" in page
        async with session.post(f"{root}/mcp", json={}) as answer:
            assert answer.status in (401, 404)  # nothing else is served there
    _, again, _ = await machine.run("dashboard", "--no-open", "--config", config)
    assert again.startswith(root)


async def test_the_dashboard_of_a_gateway_over_http_shows_what_happens_in_the_daemon_too(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")}, f"[http]\nport = {free_port()}\n")
    config = str(machine.folder / "wicket.toml")
    client = await machine.client()
    client.send(slow(9))
    server = await machine.start("--http")
    assert server.process.stderr is not None
    while b"/mcp" not in await server.process.stderr.readline():
        pass
    code, out, problem = await machine.run("dashboard", "--no-open", "--config", config)
    assert code == 0, problem
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        root, page = out.strip().partition("/ui/")[0], ""
        async with session.get(out.strip()) as answer:
            csrf = re.search('name="csrf" value="([^"]+)"', await answer.text())
        async with asyncio.timeout(20):
            while "<strong>a.slow</strong>" not in page:
                async with session.get(f"{root}/ui/activity?live=1") as answer:
                    page = await answer.text()
        async with session.get(f"{root}/ui/access") as answer:
            assert "<td>stdio</td>" in await answer.text()
        async with session.get(f"{root}/ui/servers/a") as answer:
            assert 'class="state ready"' in await answer.text()
        await call(client, "a.release")
        assert csrf is not None
        async with session.post(f"{root}/ui/servers/a/stop", data={"csrf": csrf[1]}) as answer:
            assert answer.status == 200
        async with asyncio.timeout(20):
            while (await machine.daemon())["servers"].get("a") == "ready":
                pass


async def test_a_daemon_tells_only_gateways_with_its_state_and_each_principal_its_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.configure({"a": peer("Echo")})
    monkeypatch.setenv("WICKET_RUNTIME_DIR", str(machine.runtime))
    client = await machine.client()
    client.send(slow(9))
    [(path, _)] = await asyncio.to_thread(lambda: list(find_daemons(machine.runtime)))
    daemons = Daemons(machine.folder / "state" / "wicket")
    async with asyncio.timeout(20):
        while not (glimpses := await daemons.look_around(LOCAL))[0].requests:
            pass
    assert [request.name for request in glimpses[0].requests] == ["a.slow"]
    [seen] = await daemons.look_around(Principal("ann", frozenset({"discover"})), "a")
    assert (seen.requests, seen.clients, seen.stderr) == ((), (), ())
    assert await Daemons(machine.folder).look_around(LOCAL) == []
    assert await Daemons(machine.folder / "state" / "wicket", path).look_around(LOCAL) == []
