"""Signing in with replicas: the browser comes back to any of them, and the call works at all of them."""

import re
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import Replica, replicas
from tests.gateway.serving import Raw
from tests.peers.postgres import Postgres
from tests.peers.protected import Protected

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/oauth/start/[\w-]+")


async def whoami(http: aiohttp.ClientSession, replica: Replica) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "x.whoami", "arguments": {}}}
    _, answer = await Raw(http, f"{replica.address}/mcp").modern("tools/call", params)
    return answer["result"]


async def test_a_sign_in_that_one_replica_began_is_finished_by_another(postgres: Postgres, tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # like browsers, also for hosts without a name
    async with (
        Protected() as remote,
        replicas(tmp_path, postgres.database(), {"x": {"url": remote.url}}, count=2) as house,
        aiohttp.ClientSession(cookie_jar=jar) as http,
    ):
        first, second = house.replicas
        asked = await whoami(http, first)
        link = _LINK.search(asked["content"][0]["text"])
        assert asked["isError"]
        assert link is not None, asked
        url, text = link[0], ""
        for _ in range(3):  # start, the authorization server, callback: what is ours is always the other replica's
            async with http.get(url.replace(first.address, second.address), allow_redirects=False) as answer:
                text, url = await answer.text(), answer.headers.get("Location", "")
        assert "You are signed in to" in text
        for replica in (first, second):
            assert (await whoami(http, replica))["content"][0]["text"] == "ann"
