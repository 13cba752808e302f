"""Clients listen at one replica, and hear of what happens through another."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import Replica, replicas
from tests.cluster.keys import make_key
from tests.cluster.test_ownership import last, owner_of
from tests.conftest import PEERS
from tests.gateway.serving import ACCEPT, META, TOKEN, Raw
from tests.gateway.test_announcements import LISTENER, MODERN, ROUTE, SAID, TICK, poke
from tests.gateway.test_extensions import extended
from tests.peers.postgres import Postgres
from tests.peers.watched_server import URI, WatchedServer

HEADERS = {**ACCEPT, "Authorization": f"Bearer {TOKEN}", "MCP-Protocol-Version": "2026-07-28"}


async def hear(answer: aiohttp.ClientResponse, method: str) -> dict[str, Any]:
    """The next message of a stream with this method."""
    async for line in answer.content:
        if line.startswith(b"data: ") and (message := json.loads(line[6:])).get("method") == method:
            return message
    raise AssertionError(f"the stream ended without {method}")


async def listed_uri(http: aiohttp.ClientSession, replica: Replica) -> str:
    """How the resource is called here; asking every replica also makes each of them know the server."""
    _, body = await Raw(http, f"{replica.address}/mcp/flat").modern("resources/list")
    resources: list[dict[str, Any]] = body["result"]["resources"]
    return next(resource["uri"] for resource in resources if URI in resource["uri"])


async def test_a_modern_subscription_at_a_legacy_server_hears_of_changes_through_every_replica(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with (
        WatchedServer() as remote,
        replicas(tmp_path, postgres.database(), {"x": {"url": remote.url}}) as house,
        aiohttp.ClientSession() as http,
    ):
        [uri] = {await listed_uri(http, replica) for replica in house.replicas}
        params = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {**HEADERS, "Mcp-Method": "subscriptions/listen"}
        async with asyncio.timeout(60):
            async with http.post(f"{house.replicas[0].address}/mcp/flat", json=message, headers=headers) as answer:
                await hear(answer, "notifications/subscriptions/acknowledged")
                for replica in house.replicas:
                    arguments = {"name": "x.echo", "arguments": {"message": replica.address}}
                    changed = {"name": "call_tool", "arguments": arguments}
                    await Raw(http, f"{replica.address}/mcp").modern("tools/call", changed)
                    heard = await hear(answer, "notifications/resources/updated")
                    assert heard["params"]["uri"] == uri
        assert len(remote.sessions) > 1  # each replica has its own, and one of them subscribed
        assert len(remote.subscribed) == 1
        assert URI in uri


async def test_what_a_server_announces_by_an_unknown_extension_reaches_the_clients_of_every_replica(
    postgres: Postgres, tmp_path: Path
) -> None:
    """One replica runs the server, and tells the others who may hear it."""
    async with (
        replicas(tmp_path, postgres.database(), {"one": extended("modern", "one")}) as house,
        aiohttp.ClientSession() as http,
        asyncio.timeout(60),
        AsyncExitStack() as streams,
    ):
        clients = [Raw(http, f"{replica.address}/mcp/flat") for replica in house.replicas]
        params: dict[str, Any] = {"notifications": {}, "_meta": MODERN}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {**HEADERS, "Mcp-Method": "subscriptions/listen"}
        heard: list[aiohttp.ClientResponse] = []
        for client in clients:
            await client.modern("tools/call", {"name": "one__seen", "arguments": {}})  # now it is connected
            stream = await streams.enter_async_context(http.post(client.address, json=message, headers=headers))
            await hear(stream, "notifications/subscriptions/acknowledged")
            heard.append(stream)
        for client in clients:
            await client.post(poke("modern"), ROUTE)
            for stream in heard:
                told = (await hear(stream, TICK))["params"]
                assert told == {**SAID, "_meta": {**SAID["_meta"], LISTENER: 1}}


async def test_a_subscription_at_a_users_own_process_hears_of_changes_through_every_replica(
    postgres: Postgres, tmp_path: Path
) -> None:
    """B9: the replica that does not run the process subscribes in the name of its user."""
    command = {"command": sys.executable, "args": [str(PEERS / "watched_command.py")], "placement": "user"}
    async with (
        replicas(tmp_path, postgres.database(), {"x": command}, count=2) as house,
        aiohttp.ClientSession() as http,
        asyncio.timeout(60),
    ):
        ann = {**HEADERS, "Authorization": f"Bearer {await asyncio.to_thread(make_key, tmp_path, 'ann')}"}

        async def call(replica: Replica, tool: str, **arguments: str) -> str:
            params = {"name": "call_tool", "arguments": {"name": f"x.{tool}", "arguments": arguments}}
            _, body = await Raw(http, f"{replica.address}/mcp").modern("tools/call", params, **ann)
            return last(body)["result"]["content"][0]["text"]

        owner = owner_of(house, int(await call(house.replicas[0], "pid")))
        [other] = [replica for replica in house.replicas if replica is not owner]
        _, body = await Raw(http, f"{other.address}/mcp/flat").modern("resources/list", {}, **ann)
        [uri] = [found["uri"] for found in body["result"]["resources"] if "watched" in found["uri"]]
        params = {"notifications": {"resourceSubscriptions": [uri]}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {**ann, "Mcp-Method": "subscriptions/listen"}
        async with http.post(f"{other.address}/mcp/flat", json=message, headers=headers) as answer:
            await hear(answer, "notifications/subscriptions/acknowledged")
            for replica in (other, owner):
                await call(replica, "echo", message="changed")
                heard = await hear(answer, "notifications/resources/updated")
                assert heard["params"]["uri"] == uri
