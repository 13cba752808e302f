"""The dashboard of the daemon that clients share: it shows all of them, and opens for its owner alone."""

import asyncio
import re
from typing import Any

import aiohttp
import pytest

from tests.cluster.house import VAULT_KEY, replicas
from tests.conftest import peer
from tests.daemon.conftest import Machine, call
from tests.daemon.test_faults import slow
from tests.gateway.serving import TOKEN, Command, Raw
from tests.gateway.test_http import INITIALIZE
from tests.peers.ports import free_port
from tests.peers.postgres import Postgres
from wicket_mcp.daemon.control import find_daemons
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.surface.neighbours import GATE, Neighbours
from wicket_mcp.tasks import Tasks

SLOW: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "a.slow", "arguments": {}}}


async def address_of(server: Command) -> str:
    """Where `wicket serve --http` serves, once it does."""
    assert server.process.stderr is not None
    line = b""
    while b"/mcp" not in line:
        line = await server.process.stderr.readline()
        assert line, "it ended"
    return line.decode().split(" at ")[1].split()[0]


async def enter(session: aiohttp.ClientSession, printed: str) -> str:
    """The page behind the link that `wicket dashboard` printed."""
    link = printed.strip()
    async with session.get(link) as answer:
        assert 'content="0;url=/ui"' in await answer.text()
    async with session.get(f"{link.partition('/ui/')[0]}/ui") as answer:
        return await answer.text()


async def shown(session: aiohttp.ClientSession, root: str, words: str) -> str:
    """The live part of the activity, once these words are there."""
    page = ""
    async with asyncio.timeout(20):
        while words not in page:
            async with session.get(f"{root}/ui/activity?live=1") as answer:
                page = await answer.text()
    return page


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
        assert "Overview" in await enter(session, out)
        async with session.get(f"{root}/ui/access") as answer:
            assert len(re.findall("<td>stdio</td>", await answer.text())) == 2
        assert "a.</span>pid" in await shown(session, root, "<strong>a.slow</strong>")
        async with session.post(f"{root}/mcp", json={}) as answer:
            assert answer.status in (401, 404)  # nothing else is served there
    _, again, _ = await machine.run("dashboard", "--no-open", "--config", config)
    assert again.startswith(root)


async def test_the_dashboard_of_a_gateway_over_http_shows_what_happens_in_the_daemon_too(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")}, f"[http]\nport = {free_port()}\n")
    config = str(machine.folder / "wicket.toml")
    client = await machine.client()
    client.send(slow(9))
    await address_of(await machine.start("--http"))
    code, out, problem = await machine.run("dashboard", "--no-open", "--config", config)
    assert code == 0, problem
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        root = out.strip().partition("/ui/")[0]
        csrf = re.search('name="csrf" value="([^"]+)"', await enter(session, out))
        await shown(session, root, "<strong>a.slow</strong>")
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


async def test_the_dashboard_of_the_daemon_shows_what_happens_in_a_gateway_over_http_too(machine: Machine) -> None:
    config = machine.configure({"a": peer("Echo")}, f"[http]\nport = {free_port()}\n")
    await machine.client()
    code, out, problem = await machine.run("dashboard", "--no-open", "--config", str(config))
    assert code == 0, problem  # nobody serves over HTTP yet, so it is the daemon's
    address = await address_of(await machine.start("--http"))
    headers = {"Authorization": f"Bearer {(machine.folder / 'state' / 'wicket' / 'token').read_text()}"}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        root, sending, client = out.strip().partition("/ui/")[0], Tasks(), Raw(session, address)
        await client.post(INITIALIZE, headers)
        running = sending.start(client.modern("tools/call", SLOW, **headers), "call", awaited=True)
        csrf = re.search('name="csrf" value="([^"]+)"', await enter(session, out))
        await shown(session, root, "<strong>a.slow</strong>")
        async with session.get(f"{root}/ui/access") as answer:
            assert "<td>http</td>" in await answer.text()
        await client.modern("tools/call", {"name": "call_tool", "arguments": {"name": "a.release"}}, **headers)
        await running
        assert csrf is not None
        async with session.post(f"{root}/ui/servers/a/stop", data={"csrf": csrf[1]}) as answer:
            assert answer.status == 200
        async with asyncio.timeout(20):
            page = 'class="state ready"'
            while 'class="state ready"' in page:
                async with session.get(f"{root}/ui/servers/a") as answer:
                    page = await answer.text()


async def test_a_daemon_tells_only_gateways_with_its_state_and_each_principal_its_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.configure({"a": peer("Echo")})
    monkeypatch.setenv("WICKET_RUNTIME_DIR", str(machine.runtime))
    client = await machine.client()
    client.send(slow(9))
    [(path, _)] = await asyncio.to_thread(lambda: list(find_daemons(machine.runtime)))
    state = machine.folder / "state" / "wicket"
    neighbours = Neighbours(state, machine.runtime / f"me{GATE}", alone=True)
    async with asyncio.timeout(20):
        while not (glimpses := await neighbours.look_around(LOCAL))[0].requests:
            pass
    assert [request.name for request in glimpses[0].requests] == ["a.slow"]
    [seen] = await neighbours.look_around(Principal("ann", frozenset({"discover"})), "a")
    assert (seen.requests, seen.clients, seen.stderr) == ((), (), ())
    assert await Neighbours(machine.folder, machine.runtime, alone=True).look_around(LOCAL) == []
    assert await Neighbours(state, path, alone=True).look_around(LOCAL) == []


async def test_the_socket_of_a_gateway_that_was_killed_is_removed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WICKET_RUNTIME_DIR", str(machine.runtime))
    machine.configure({"a": peer("Echo")})
    server = await machine.start("--http", "127.0.0.1:0")
    await address_of(server)
    neighbours = Neighbours(machine.folder / "state" / "wicket", machine.runtime, alone=True)
    assert len(await neighbours.look_around(LOCAL)) == 1
    server.process.kill()
    await server.process.wait()
    assert list(machine.runtime.glob(f"*{GATE}"))
    assert await neighbours.look_around(LOCAL) == []
    assert not list(machine.runtime.glob(f"*{GATE}"))


async def test_one_that_ends_leaves_no_socket(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    server = await machine.start("--http", "127.0.0.1:0")
    await address_of(server)
    assert len(list(machine.runtime.glob(f"*{GATE}"))) == 1
    server.process.terminate()
    await server.process.communicate()
    assert not list(machine.runtime.iterdir())


async def test_replicas_and_the_daemons_on_their_machines_show_each_other(machine: Machine, postgres: Postgres) -> None:
    servers, runtime = {"a": peer("Echo")}, str(machine.runtime)
    nowhere = f"[http]\nport = {free_port()}\n"  # so that `wicket dashboard` opens the daemon's
    async with (
        replicas(
            machine.folder, postgres.database(), servers, count=2, options=nowhere, WICKET_RUNTIME_DIR=runtime
        ) as house,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        far, near = house.replicas
        beside = str(machine.folder / "state-1")  # the daemon has the state folder of the second replica
        client = await machine.client(
            XDG_STATE_HOME=beside, WICKET_VAULT_KEY=VAULT_KEY
        )  # its daemon has the state folder of the second replica
        client.send(slow(9))
        for replica in (near, far):
            await session.post(f"{replica.address}/ui/sign-in", data={"token": TOKEN})
            page = await shown(session, replica.address, "<strong>a.slow</strong>")
            assert page.count("<strong>a.slow</strong>") == 1
        await call(client, "a.release")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        sending = Tasks()
        sending.start(Raw(session, f"{far.address}/mcp").modern("tools/call", SLOW, **headers), "call")
        config = machine.folder / "wicket.toml"
        code, out, problem = await machine.run(
            *("dashboard", "--no-open", "--config", str(config)), XDG_STATE_HOME=beside, WICKET_VAULT_KEY=VAULT_KEY
        )
        assert code == 0, problem
        await enter(session, out)
        page = await shown(session, out.strip().partition("/ui/")[0], "<strong>a.slow</strong>")
        assert page.count("<strong>a.slow</strong>") == 1
        await sending.close()
