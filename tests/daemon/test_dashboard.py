"""The dashboard of the daemon that clients share: it shows all of them, and opens for its owner alone."""

import asyncio
import re

import aiohttp

from tests.conftest import peer
from tests.daemon.conftest import Machine, call
from tests.daemon.test_faults import slow
from tests.peers.postgres import free_port


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
