"""Tokens of a real provider (npm oidc-provider): a JWT, and an opaque one that it is asked about."""

import asyncio
import base64
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests import needs
from tests.conformance.suite import node
from tests.conftest import NODE_SERVERS, PEERS, OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_http import INITIALIZE, call

pytestmark = pytest.mark.node
HOME = NODE_SERVERS.parent
PUBLIC = "http://127.0.0.1:9999"
SECRET = "secret-of-the-client-secret-of-the-client"


@asynccontextmanager
async def provider() -> AsyncGenerator[str]:
    """Its address."""
    program = node()
    if program is None or not (HOME / "oidc-provider").exists():
        pytest.skip(needs.NPM_SERVERS)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program, PEERS / "oidc_provider.mjs", HOME, str(port), PUBLIC, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        while (line := await process.stdout.readline()) != b"ready\n":
            assert line, "the provider ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.communicate()


async def fetch_token(issuer: str, resource: str, scope: str = "discover invoke") -> str:
    basic = base64.b64encode(f"robot:{SECRET}".encode()).decode()
    form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
    async with aiohttp.ClientSession(headers={"Authorization": f"Basic {basic}"}) as session:
        async with session.post(f"{issuer}/token", data=form) as answer:
            body = await answer.json()
            assert answer.status == 200, body
            return body["access_token"]


async def test_the_tokens_of_a_real_provider(open_gateway: OpenGateway) -> None:
    async with provider() as issuer:
        asking = {"introspection": f"{issuer}/token/introspection", "client_id": "wicket", "client_secret": SECRET}
        http = {"public_url": PUBLIC, "issuers": [{"issuer": issuer, **asking}]}
        async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                signed = await fetch_token(issuer, f"{PUBLIC}/mcp")
                opaque = await fetch_token(issuer, f"{PUBLIC}/mcp/native")
                assert (signed.count("."), opaque.count(".")) == (2, 0)
                for token in (signed, opaque):
                    status, headers, body = await client.post(INITIALIZE, token=token)
                    assert status == 200, body
                    session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                    _, _, body = await client.post(call("echo.echo", message="hello"), session, token=token)
                    assert body["result"]["content"][0]["text"] == "hello"
                other = await fetch_token(issuer, "https://other.example/mcp")
                weak = await fetch_token(issuer, f"{PUBLIC}/mcp", "discover")
                assert (await client.post(INITIALIZE, token=other))[0] == 401
                _, headers, _ = await client.post(INITIALIZE, token=weak)
                session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                assert (await client.post(call("echo.echo"), session, token=weak))[0] == 403
