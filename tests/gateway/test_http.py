"""Serving over HTTP: both eras, the guard on every route, limits, and an orderly end."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import ACCEPT, META, TOKEN, Command, Raw, raw_client, serve_http
from tests.gateway.test_faults import gone
from tests.peers.ports import free_port
from wicket_mcp.config.model.config import HttpConfig
from wicket_mcp.errors import ConfigError
from wicket_mcp.surface.guard import Guard, Rejected, check_exposure
from wicket_mcp.surface.http import RequestHeaders
from wicket_mcp.surface.owner_token import load_token

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def call(name: str, number: int | str = 1, **arguments: Any) -> dict[str, Any]:
    """A tools/call of native's call_tool for an upstream tool."""
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def legacy_session(client: Raw) -> dict[str, str]:
    """The headers of a freshly opened legacy session."""
    status, headers, body = await client.post(INITIALIZE)
    assert (status, body["result"]["protocolVersion"]) == (200, "2025-06-18")
    return {"Mcp-Session-Id": headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-06-18"}


async def test_a_legacy_session_calls_and_ends(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            session = await legacy_session(client)
            status, _, body = await client.post(call("echo.echo", message="over http"), session)
            assert (status, body["result"]["content"][0]["text"]) == (200, "over http")
            auth = {"Authorization": f"Bearer {TOKEN}"}
            async with client.session.delete(address, headers={**session, **auth}) as answer:
                assert answer.status == 200
            assert (await client.post(call("echo.echo", message="x"), session))[0] == 404
            assert (await client.post(call("echo.echo", message="x")))[0] == 400


async def test_a_modern_request_stands_alone(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            status, body = await client.modern("server/discover")
            assert (status, body["result"]["supportedVersions"]) == (200, ["2026-07-28"])
            status, body = await client.modern("tools/call", call("echo.echo", message="stateless")["params"])
            assert (status, body["result"]["content"][0]["text"]) == (200, "stateless")
            assert body["result"]["resultType"] == "complete"
            status, body = await client.modern("no/such")
            assert (status, body["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("header", "value"),
    [("Mcp-Method", "tools/list"), ("Mcp-Name", "another_tool"), ("MCP-Protocol-Version", "2025-11-25")],
)
@pytest.mark.promise("T4", "Headers that do not repeat the body are refused.")
async def test_t4_routing_headers_must_repeat_the_body(open_gateway: OpenGateway, header: str, value: str) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            params = call("echo.echo", message="x")["params"]
            status, body = await client.modern("tools/call", params, **{header: value})
            assert (status, body["error"]["code"]) == (400, -32020)
            assert header.lower() in body["error"]["message"].lower()


async def test_progress_turns_the_answer_into_a_stream(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            message = call("echo.steps", "s")
            message["params"]["_meta"] = {"progressToken": 5}
            _, headers, events = await client.post(message, await legacy_session(client))
    assert headers["Content-Type"] == "text/event-stream"
    assert [event["params"]["progress"] for event in events[:-1]] == [1, 2, 3]
    assert events[-1]["result"]["content"][0]["text"] == "three steps"


@pytest.mark.promise("F13", "The server gets a cancellation.")
async def test_f13_a_modern_client_that_leaves_cancels_its_call(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            slow = asyncio.ensure_future(client.modern("tools/call", call("echo.slow")["params"]))
            while not (await gateway.call("echo.calls"))["structuredContent"]["waiting"]:
                pass
            slow.cancel()
            while not (await gateway.call("echo.calls"))["structuredContent"]["cancelled"]:
                pass


@pytest.mark.promise("D19", "A client that closes only its sending side gets its answer.")
async def test_d19_a_client_that_closes_only_its_sending_side_gets_its_answer(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            session = await legacy_session(client)
        body = json.dumps(call("echo.slow")).encode()
        headers = {"Host": "localhost", "Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body)), **session}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        writer.write_eof()
        while not (await gateway.call("echo.calls"))["structuredContent"]["waiting"]:
            pass
        for _ in range(10):  # by now the end of its input has been seen
            await gateway.call("echo.calls")
        await gateway.call("echo.release")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"released" in answer


async def test_a_legacy_client_cancels_by_saying_so(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            session = await legacy_session(client)
            slow = asyncio.ensure_future(client.post(call("echo.slow", "s"), session))
            while not (await gateway.call("echo.calls"))["structuredContent"]["waiting"]:
                pass
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}
            assert (await client.post(cancel, session))[0] == 202
            assert await slow == (200, (await slow)[1], [])
            assert (await gateway.call("echo.calls"))["structuredContent"]["cancelled"] == 1


async def test_both_kinds_of_client_hear_that_the_flat_list_changed(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("GrowsATool")}) as gateway, serve_http(gateway, "flat") as address:
        async with raw_client(address) as client:
            await gateway.tools()
            async with change_stream(client, "legacy") as legacy, change_stream(client, "modern") as modern:
                assert (await client.post(INITIALIZE))[0] == 200
                await gateway.call("x.release")
                assert (await next_event(legacy))["method"] == "notifications/tools/list_changed"
                heard = await next_event(modern)
                assert heard["method"] == "notifications/tools/list_changed"
                assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 9
            names = [tool["name"] for tool in (await client.modern("tools/list"))[1]["result"]["tools"]]
            assert "x__grown" in names


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.promise("F15", "A client is notified at most twice a second.")
async def test_f15_a_storm_reaches_a_client_at_most_twice_a_second(open_gateway: OpenGateway, era: str) -> None:
    async with open_gateway({"x": peer("ChangesAllTheTime")}) as gateway, serve_http(gateway, "flat") as address:
        async with raw_client(address) as client, change_stream(client, era) as stream:
            await client.modern("tools/list")
            loop = asyncio.get_running_loop()
            began = loop.time()
            await gateway.call("x.release")
            told, names = 0, list[str]()
            while told < 2 or "x__v2000" not in names:
                if "x__v2000" in names:  # the storm was over before its first notice was read: another one
                    await gateway.call("x.release")
                assert (await next_event(stream))["method"] == "notifications/tools/list_changed"
                told += 1
                names = [tool["name"] for tool in (await client.modern("tools/list"))[1]["result"]["tools"]]
            assert told <= (loop.time() - began) / 0.5 + 1


@asynccontextmanager
async def change_stream(client: Raw, era: str) -> AsyncGenerator[aiohttp.ClientResponse]:
    """The stream on which a client of an era hears that lists changed."""
    auth = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
    if era == "legacy":
        session = await legacy_session(client)
        async with client.session.get(client.address, headers={**auth, **session}) as stream:
            yield stream
        return
    listen = {"notifications": {"toolsListChanged": True}, "_meta": META}
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    message = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": listen}
    async with client.session.post(client.address, json=message, headers={**auth, **routing}) as stream:
        assert "acknowledged" in json.dumps(await next_event(stream))
        yield stream


async def next_event(stream: aiohttp.ClientResponse) -> Any:
    while True:
        line = await stream.content.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            return json.loads(line[6:])


async def test_every_dialect_has_its_own_address(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(f"{address}/flat") as client:
            status, body = await client.modern("tools/list")
            assert status == 200
            assert "echo__echo" in [tool["name"] for tool in body["result"]["tools"]]
        async with raw_client(f"{address}/klingon") as client:
            assert (await client.modern("tools/list"))[0] == 404


HOSTS = ["evil.example", "127.0.0.1.evil.example", "127.0.0.1/?x", "evil.example@127.0.0.1", ""]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/flat", "/healthz", "/readyz", "/nothing", "//mcp", "/mcp/../healthz"])
@pytest.mark.promise("T1", "Requests with a foreign host or origin are refused on every path.")
async def test_t1_no_path_is_served_to_a_foreign_host_or_origin(open_gateway: OpenGateway, path: str) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        base = address.removesuffix("/mcp")
        auth = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession() as session:
            for headers in [
                *({"Host": host} for host in HOSTS),
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Origin": "http://127.0.0.1.evil.example"},
            ]:
                async with session.post(base + path, headers={**auth, **headers}, data=b"{}") as answer:
                    assert answer.status in (400, 403, 421), (headers, answer.status)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/native", "/nothing", "/healthz/", "/HEALTHZ"])
@pytest.mark.promise("T3", "Without the token nothing is served.")
async def test_t3_without_the_token_nothing_is_served(open_gateway: OpenGateway, path: str) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        base = address.removesuffix("/mcp")
        async with aiohttp.ClientSession() as session:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                for method in ("GET", "POST", "DELETE", "OPTIONS"):
                    async with session.request(method, base + path, headers=headers) as answer:
                        assert answer.status == 401
                        is_wrong = headers.get("Authorization") == "Bearer wrong"
                        challenge = 'Bearer error="invalid_token"' if is_wrong else "Bearer"
                        assert answer.headers["WWW-Authenticate"] == challenge
                        said = "This bearer token is not valid" if is_wrong else "A bearer token is needed"
                        assert said in await answer.text()


def test_two_hosts_or_two_origins_are_nobody() -> None:
    guard = Guard(HttpConfig(), TOKEN)
    good = (b"host", b"localhost:8377")
    auth = (b"authorization", f"Bearer {TOKEN}".encode())
    origin = (b"origin", b"http://localhost:3000")
    assert not isinstance(guard.admit(RequestHeaders([good, auth, origin])), Rejected)
    assert isinstance(guard.admit(RequestHeaders([good, good, auth])), Rejected)
    assert isinstance(guard.admit(RequestHeaders([good, auth, origin, origin])), Rejected)
    assert isinstance(guard.admit(RequestHeaders([good, auth, auth])), Rejected)


@pytest.mark.promise("T18", "Wicket does not start if it would listen beyond this machine without a token.")
def test_t18_listening_for_everybody_needs_a_token_and_the_hosts_it_answers_to() -> None:
    everywhere = HttpConfig(host="0.0.0.0", allowed_hosts=("tools.example",))
    with pytest.raises(ConfigError, match="--no-auth"):
        check_exposure(everywhere, authenticated=False)
    check_exposure(everywhere, authenticated=True)
    guard = Guard(everywhere, TOKEN)
    auth = (b"authorization", f"Bearer {TOKEN}".encode())
    assert not isinstance(guard.admit(RequestHeaders([(b"host", b"tools.example:443"), auth])), Rejected)
    assert isinstance(guard.admit(RequestHeaders([(b"host", b"other.example"), auth])), Rejected)
    assert isinstance(
        guard.admit(RequestHeaders([(b"host", b"tools.example"), auth, (b"origin", b"http://localhost")])), Rejected
    )


async def test_health_checks_may_name_any_address_of_the_machine_where_all_are_listened_at(
    open_gateway: OpenGateway,
) -> None:
    """As Kubernetes and load balancers do it: their Host is the address of a pod or machine. A name may be rebound."""
    statuses: dict[str, list[int]] = {}
    metrics = free_port()
    async with open_gateway({}, http={"host": "0.0.0.0"}) as gateway:
        async with serve_http(gateway, metrics=("0.0.0.0", metrics)) as address, aiohttp.ClientSession() as session:
            root = address.removesuffix("/mcp").replace("0.0.0.0", "127.0.0.1")
            for url in (f"{root}/healthz", f"{root}/readyz", f"http://127.0.0.1:{metrics}/metrics", f"{root}/mcp"):
                for host in ("10.1.2.3:8377", "[fd00::5]:8377", "rebound.example"):
                    async with session.get(url, headers={"Host": host}) as answer:
                        statuses.setdefault(url.rpartition("/")[2], []).append(answer.status)
    served = [200, 200, 421]
    assert statuses == {"healthz": served, "readyz": served, "metrics": served, "mcp": [401, 401, 421]}


def test_the_token_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    token, path = load_token(tmp_path / "state")
    assert load_token(tmp_path / "state") == (token, path)
    assert isinstance(path, Path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short")
    with pytest.raises(ConfigError, match="too short"):
        load_token(tmp_path / "state")


async def test_a_body_beyond_the_limit_is_refused_unread(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, http={"max_body": 1000}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            assert (await client.post(b"x" * 1001))[0] == 413
            assert (await client.post(b"[" * 900))[0] == 400


async def test_a_session_of_another_address_is_unknown(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            session = await legacy_session(client)
        async with raw_client(f"{address}/flat") as client:
            assert (await client.post(call("echo.echo", message="x"), session))[0] == 404


async def test_a_port_that_is_taken_is_named(open_gateway: OpenGateway) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with open_gateway({}, http={"port": port}) as gateway:
            with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*already in use"):
                async with serve_http(gateway):
                    pass


@pytest.mark.promise("F23", "Fifty calls in flight are answered, then the process ends.")
async def test_f23_sigterm_finishes_fifty_calls_in_flight_and_exits_clean(tmp_path: Path) -> None:
    command = await Command.start(
        tmp_path, {"echo": peer("Echo", max_concurrent=100)}, "--http", "127.0.0.1:0", "--no-auth"
    )
    assert command.process.stderr is not None
    while b"http://" not in (line := await command.process.stderr.readline()):
        assert line, "the gateway ended"
    address = line[line.index(b"http://") :].split()[0].decode()
    async with raw_client(address) as client:

        async def counted() -> dict[str, Any]:
            _, body = await client.modern("tools/call", call("echo.calls")["params"])
            return body["result"]["structuredContent"]

        _, body = await client.modern("tools/call", call("echo.pid")["params"])
        child = int(body["result"]["content"][0]["text"])
        slow = [asyncio.ensure_future(client.modern("tools/call", call("echo.slow", n)["params"])) for n in range(50)]
        while (await counted())["waiting"] < 50:
            pass
        command.process.send_signal(signal.SIGTERM)
        while b"SIGTERM" not in await command.process.stderr.readline():
            pass
        os.kill(child, signal.SIGUSR1)
        answers = await asyncio.gather(*slow)
        assert [body["result"]["content"][0]["text"] for _, body in answers] == ["released"] * 50
    await command.process.communicate()
    assert command.process.returncode == 0
    await gone(child)


async def test_readiness_and_liveness_say_yes_without_a_token(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        base = address.removesuffix("/mcp")
        async with aiohttp.ClientSession() as session:
            for path in ("/healthz", "/readyz"):
                async with session.get(base + path) as answer:
                    assert answer.status == 200


@pytest.mark.promise("F31", "A request that arrives too slowly is cut off.")
async def test_f31_what_drips_in_is_cut_off(open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wicket_mcp.surface.http_connection.HEAD_DEADLINE", 0.2)
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
