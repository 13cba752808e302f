"""Clients that are web pages: what a browser asks before it lets a page of another origin speak to us (CORS)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.conftest import OpenGateway
from tests.gateway.serving import serve_http
from tests.gateway.test_http import INITIALIZE
from tests.identity.test_consent_page import browsing

WEB = "https://inspector.example"
OTHER = "https://evil.example"


@asynccontextmanager
async def asking(open_gateway: OpenGateway) -> AsyncGenerator[tuple[aiohttp.ClientSession, str]]:
    http = {"authorization": {"enabled": True}, "allowed_origins": [WEB]}
    async with open_gateway({}, http=http) as gateway, serve_http(gateway) as address:
        async with aiohttp.ClientSession() as session:
            yield session, address.removesuffix("/mcp")


async def preflight(session: aiohttp.ClientSession, url: str, origin: str) -> tuple[int, str | None]:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    async with session.options(url, headers={"Origin": origin, **asked}) as answer:
        if answer.status == 204:
            assert answer.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        assert "Access-Control-Allow-Credentials" not in answer.headers
        return answer.status, answer.headers.get("Access-Control-Allow-Origin")


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/oauth/register",
        "/oauth/token",
        "/oauth/revoke",
    ],
)
async def test_a_page_of_any_origin_may_get_a_token(open_gateway: OpenGateway, path: str) -> None:
    async with asking(open_gateway) as (session, base):
        assert await preflight(session, f"{base}{path}", OTHER) == (204, "*")
        method = "GET" if path.startswith("/.well-known") else "POST"
        async with session.request(method, f"{base}{path}", headers={"Origin": OTHER}, data=None) as answer:
            assert answer.status in (200, 400)
            assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_tools_are_called_by_pages_of_allowed_origins_alone(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway) as (session, base):
        assert await preflight(session, f"{base}/mcp", WEB) == (204, WEB)
        assert await preflight(session, f"{base}/mcp", OTHER) == (403, None)
        async with session.post(f"{base}/mcp", json=INITIALIZE, headers={"Origin": WEB}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (401, WEB)
            assert "WWW-Authenticate" in answer.headers["Access-Control-Expose-Headers"]
            assert answer.headers["Vary"] == "Origin"
        async with session.post(f"{base}/mcp", json=INITIALIZE, headers={"Origin": OTHER}) as answer:
            assert (answer.status, "Access-Control-Allow-Origin" in answer.headers) == (403, False)


async def test_no_page_reads_what_a_cookie_protects(open_gateway: OpenGateway) -> None:
    async with asking(open_gateway) as (session, base):
        for path in ("/ui", "/oauth/authorize"):
            async with session.get(f"{base}{path}", headers={"Origin": WEB}) as answer:
                assert "Access-Control-Allow-Origin" not in answer.headers


CONNECT = """async ([base, redirect_uri]) => {
  const open = await fetch(base + "/mcp", {method: "POST", body: "{}", headers: {"Content-Type": "application/json"}});
  const where = /resource_metadata="([^"]+)"/.exec(open.headers.get("WWW-Authenticate"))[1];
  const resource = await (await fetch(where)).json();
  const server = resource.authorization_servers[0];
  const metadata = await (await fetch(server + "/.well-known/oauth-authorization-server")).json();
  const client = await (await fetch(metadata.registration_endpoint, {method: "POST",
    headers: {"Content-Type": "application/json"}, body: JSON.stringify({redirect_uris: [redirect_uri]})})).json();
  const denied = await fetch(base + "/mcp", {method: "POST", body: "{}",
    headers: {"Content-Type": "application/json", "Authorization": "Bearer x", "MCP-Protocol-Version": "2026-07-28"}});
  return [open.status, client.client_id.slice(0, 3), denied.status, denied.headers.get("WWW-Authenticate")];
}"""


async def test_a_page_in_a_real_browser_finds_out_how_to_sign_in(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway) as (page, client, site):
        site.html = "<title>a client</title>"
        await page.goto(site.origin)
        found = await page.evaluate(CONNECT, [client.base, f"{site.origin}/callback"])
        assert found[:3] == [401, "wc_", 401]
        assert 'error="invalid_token"' in found[3]
