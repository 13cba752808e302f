"""The dashboard of one replica shows what happens at all of them."""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import Replica, replicas
from tests.conftest import peer
from tests.gateway.serving import TOKEN, Raw
from tests.gateway.test_faults import gone
from tests.gateway.test_http import INITIALIZE
from tests.peers.postgres import Postgres


async def call(http: aiohttp.ClientSession, replica: Replica, name: str) -> Any:
    params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": name, "arguments": {}}}
    _, answer = await Raw(http, f"{replica.address}/mcp").modern("tools/call", params)
    return answer["result"]["content"][0]["text"]


async def stop(http: aiohttp.ClientSession, replica: Replica, server: str, number: int) -> None:
    """Stop a server, whose process id is `number`, on the dashboard of a replica."""
    await http.post(f"{replica.address}/ui/sign-in", data={"token": TOKEN})
    async with http.get(f"{replica.address}/ui/servers/{server}") as page:
        (csrf,) = {*re.findall('name="csrf" value="([^"]+)"', await page.text())}
    async with http.post(f"{replica.address}/ui/servers/{server}/stop", data={"csrf": csrf}) as stopped:
        assert stopped.status == 200
    await gone(number)


async def test_each_replica_shows_the_calls_of_all(postgres: Postgres, tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        replicas(tmp_path, postgres.database(), {"x": peer("Echo")}, count=2) as house,
        aiohttp.ClientSession(cookie_jar=jar) as http,
    ):
        first, second = house.replicas
        number = int(await call(http, first, "x.pid"))
        slow = asyncio.ensure_future(call(http, first, "x.slow"))
        await http.post(f"{second.address}/ui/sign-in", data={"token": TOKEN})
        async with asyncio.timeout(20):
            for replica in (first, second):
                text = ""
                while "<strong>x.slow</strong>" not in text:
                    async with http.get(f"{replica.address}/ui/activity?live=1") as page:
                        assert page.status == 200
                        text = await page.text()
                assert text.count("<strong>x.slow</strong>") == 1
        async with http.get(f"{second.address}/_replica/under-way") as stranger:
            assert stranger.status == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with http.get(f"{second.address}/_replica/under-way", headers=headers) as stranger:
            assert stranger.status == 404  # not even the owner: it is for replicas
        os.kill(number, signal.SIGUSR1)
        await slow
        async with http.get(f"{second.address}/ui/activity?live=1") as page:
            assert "<strong>x.slow</strong>" not in await page.text()


async def test_each_replica_shows_and_stops_a_server_that_another_runs(postgres: Postgres, tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        replicas(tmp_path, postgres.database(), {"x": peer("DiesMidCall"), "y": peer("Echo")}, count=2) as house,
        aiohttp.ClientSession(cookie_jar=jar) as http,
    ):
        first, second = house.replicas
        number = int(await call(http, first, "y.pid"))
        await call(http, first, "x.slow")  # its last words are heard by the replica that ran it
        await Raw(http, f"{first.address}/mcp").post(INITIALIZE)
        await http.post(f"{second.address}/ui/sign-in", data={"token": TOKEN})

        async def shows(path: str, *words: str) -> None:
            """Return once the page does. A replica that has just joined is not known yet, and one that does not answer
            at once is left out of a page.
            """
            text = ""
            async with asyncio.timeout(20):
                while not all(word in text for word in words):
                    async with http.get(f"{second.address}{path}") as page:
                        assert page.status == 200
                        text = await page.text()

        await shows("/ui/servers/x", "about to die of natural causes")
        await shows("/ui/servers/y", 'class="state ready"', "stdio 2025-11-25")
        await shows("/ui/access", "<td>2025-06-18</td><td>http</td>")
        await stop(http, second, "y", number)
        assert int(await call(http, second, "y.pid")) != number
