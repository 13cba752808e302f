"""Who watches a resource at one worker hears of what happens through the other, in both eras."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.test_subscriptions import hear
from tests.conftest import PEERS
from tests.gateway.serving import ACCEPT, META, Raw
from tests.peers.ports import free_port
from tests.peers.watched_server import URI, WatchedServer
from tests.workers.conftest import Served, Start
from tests.workers.test_workers import HELLO

COMMAND = {"command": sys.executable, "args": [str(PEERS / "watched_command.py")]}
LISTEN = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
UPDATED = "notifications/resources/updated"


def accepted_by(served: Served, port: int) -> int:
    """The worker that has the other end of a connection of ours, which has this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    [socket] = {row[9] for row in rows if int(row[2].rpartition(":")[2], 16) == port and row[9] != "0"}
    for worker in served.workers():
        for file in Path(f"/proc/{worker}/fd").iterdir():
            try:
                if str(file.readlink()) == f"socket:[{socket}]":
                    return worker
            except FileNotFoundError:  # closed meanwhile
                continue
    raise AssertionError("nobody has accepted it")


@asynccontextmanager
async def a_client_at_each(served: Served) -> AsyncGenerator[list[Raw]]:
    """Two clients, each with one connection, which the first and the second worker have accepted."""
    found: dict[int, Raw] = {}
    async with AsyncExitStack() as stack:
        while len(found) < 2:
            port = free_port()
            one = aiohttp.TCPConnector(limit=1, keepalive_timeout=600, local_addr=("127.0.0.1", port))
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=one))
            async with http.get(served.address.replace("/mcp", "/readyz")) as answer:
                assert answer.status == 200
                await answer.read()
            worker = accepted_by(served, port)
            found.setdefault(worker, Raw(http, f"{served.address}/flat"))
        yield list(found.values())


@asynccontextmanager
async def open_stream(client: Raw, headers: dict[str, str]) -> AsyncGenerator[aiohttp.ClientResponse]:
    """A session's stream, once the one before is closed everywhere."""
    status = 409
    while status == 409:
        async with client.session.get(client.address, headers=headers) as stream:
            if (status := stream.status) == 200:
                yield stream
    assert status == 200


async def change(client: Raw, server: str) -> None:
    params: dict[str, Any] = {"name": f"{server}__echo", "arguments": {"message": "changed"}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": params["name"]}
    status, _, body = await client.post(message, headers, token=None)
    assert (status, body["result"]["content"][0]["text"]) == (200, "changed")


async def uris(client: Raw) -> list[str]:
    """What the resources of both servers are called here."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": META}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/list"}
    _, _, body = await client.post(message, headers, token=None)
    return [resource["uri"] for resource in body["result"]["resources"] if re.search(re.escape(URI), resource["uri"])]


async def test_changes_through_every_worker_reach_who_listens_at_any(start: Start) -> None:
    async with (
        WatchedServer() as remote,
        start({"a": COMMAND, "b": {"url": remote.url}}, workers=2) as served,
        a_client_at_each(served) as listeners,
        a_client_at_each(served) as changers,
        AsyncExitStack() as stack,
        asyncio.timeout(60),
    ):
        watched = await uris(changers[0])
        assert len(watched) == 2
        params = {"notifications": {"resourceSubscriptions": watched}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        for client in listeners:
            posted = client.session.post(client.address, json=message, headers=LISTEN)
            stream = await stack.enter_async_context(posted)
            await hear(stream, "notifications/subscriptions/acknowledged")
            for server, uri in zip(("a", "b"), watched, strict=True):
                for changer in changers:
                    await change(changer, server)
                    assert (await hear(stream, UPDATED))["params"]["uri"] == uri


async def test_a_legacy_session_hears_at_a_stream_that_another_worker_accepted(start: Start) -> None:
    async with (
        start({"a": COMMAND}, workers=2) as served,
        a_client_at_each(served) as clients,
        a_client_at_each(served) as streams,
        asyncio.timeout(60),
    ):
        [uri] = await uris(clients[0])
        _, headers, _ = await clients[0].post(HELLO, token=None)
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        for asker, streamer in ((clients[0], streams[1]), (clients[1], streams[0])):
            subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": uri}}
            status, _, body = await asker.post(subscribe, session, token=None)
            assert (status, "result" in body) == (200, True), body
            events = {**session, "Accept": "text/event-stream"}
            async with open_stream(streamer, events) as stream:
                for changer in clients:
                    await change(changer, "a")
                    assert (await hear(stream, UPDATED))["params"]["uri"] == uri
