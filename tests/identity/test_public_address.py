"""A gateway with a public https address, behind a reverse proxy, in a real browser: cookies, metadata, our document."""

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests import needs
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import TOKEN, serve_http
from tests.identity.test_authorization import Flow
from tests.identity.test_consent_page import CHROMIUM, WebClient, address, playwright
from tests.peers.protected import Protected
from tests.peers.tls import Authority
from tests.peers.tls_proxy import TlsProxy
from wicket_mcp import Gateway
from wicket_mcp.model import LOCAL, JsonObject

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)
HOST = "wicket.example"


class Here(AbstractResolver):
    """Knows every name as this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        return None


@dataclass
class Public:
    """The gateway as the world reaches it."""

    proxy: TlsProxy
    authority: Authority
    gateway: Gateway
    session: aiohttp.ClientSession
    page: Any
    """Of a browser that finds the host."""


def session_of(authority: Authority) -> aiohttp.ClientSession:
    trusted = ssl.create_default_context(cafile=str(authority.file))
    connector = aiohttp.TCPConnector(ssl=trusted, resolver=Here())
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


@asynccontextmanager
async def published(open_gateway: OpenGateway, folder: Path, **servers: Any) -> AsyncGenerator[Public]:
    authority = Authority(folder)
    async with TlsProxy(HOST, authority.context(HOST)) as proxy, session_of(authority) as session:
        http = {"public_url": proxy.origin, "authorization": {"enabled": True}}
        async with open_gateway({"echo": peer("Echo"), **servers}, http=http) as gateway, serve_http(gateway) as local:
            host, _, port = local.removeprefix("http://").removesuffix("/mcp").partition(":")
            proxy.target = host, int(port)
            async with playwright.async_playwright() as tools:
                rules = (f"--host-resolver-rules=MAP {HOST} 127.0.0.1", "--ignore-certificate-errors", "--no-sandbox")
                browser = await tools.chromium.launch(executable_path=CHROMIUM, args=list(rules))
                try:
                    page = await browser.new_page(ignore_https_errors=True)
                    yield Public(proxy, authority, gateway, session, page)
                finally:
                    await browser.close()


async def test_a_client_connects_by_the_public_address_and_the_browser_stays_signed_in(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    async with published(open_gateway, tmp_path) as public, WebClient().serve() as site:
        client = Flow(public.session, public.proxy.origin, redirect_uri=f"{site.origin}/callback")
        async with public.session.get(f"{client.base}/.well-known/oauth-protected-resource/mcp") as answer:
            resource = await answer.json()
        assert resource["resource"] == f"{client.base}/mcp"
        assert resource["authorization_servers"] == [client.base]
        await client.register()
        await public.page.goto(address(client))
        assert await public.page.context.cookies() == []  # nothing before somebody has allowed something
        await public.page.fill("#credential", TOKEN)
        await public.page.click("button[value=approve]")
        await public.page.wait_for_url(f"{site.origin}/callback*")
        (cookie,) = [each for each in await public.page.context.cookies() if each["domain"] == HOST]
        assert cookie["name"] == "__Host-wicket"
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, True, "Lax", "/")
        _, issued = await client.redeem(site.came_back[0]["code"])
        assert await client.status(issued["access_token"]) == 200
        await public.page.goto(address(client, "second"))
        assert "signed in as the owner" in await public.page.inner_text("main")


@dataclass
class ReadsDocuments(Protected):
    """Knows clients by the documents that they publish, and registers none."""

    session: aiohttp.ClientSession | None = None
    documents: tuple[JsonObject, ...] = ()

    def metadata(self) -> JsonObject:
        return {**super().metadata(), "client_id_metadata_document_supported": True}

    async def register(self, request: web.Request) -> web.Response:
        return web.Response(status=403)

    async def authorize(self, request: web.Request) -> web.Response:
        assert self.session is not None
        async with self.session.get(request.query["client_id"]) as answer:
            document = await answer.json()
        assert document["client_id"] == request.query["client_id"]
        assert request.query["redirect_uri"] in document["redirect_uris"]
        self.documents = (*self.documents, document)
        return await super().authorize(request)


async def test_we_are_known_by_our_document_and_the_browser_comes_back_with_its_cookie(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    async with ReadsDocuments() as remote, published(open_gateway, tmp_path, x={"url": remote.url}) as public:
        remote.session = public.session
        pending = await public.gateway.accounts.sign_ins.begin(public.gateway.catalogue.server("x"), LOCAL)
        assert pending.link.startswith(f"{public.proxy.origin}/oauth/start/")
        await public.page.goto(pending.link)
        assert "You are signed in to 'x'" in await public.page.inner_text("body")
        await pending.wait()
        (cookie,) = [each for each in await public.page.context.cookies() if each["domain"] == HOST]
        assert (cookie["name"].startswith("__Host-wicket-sign-in-"), cookie["secure"]) == (True, True)
        (document,) = remote.documents
        assert document["client_id"] == f"{public.proxy.origin}/oauth/client.json"
        assert document["redirect_uris"] == [f"{public.proxy.origin}/oauth/callback"]
        assert (document["token_endpoint_auth_method"], document["application_type"]) == ("none", "web")
        assert (await public.gateway.call("x.whoami"))["content"][0]["text"] == "ann"
