"""The consent page in a real browser (Chromium): allowed, denied, framed by another site, posted by another site."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from aiohttp import web

from tests import needs
from tests.conftest import OpenGateway
from tests.gateway.serving import TOKEN
from tests.identity.test_authorization import CHALLENGE, Flow, flow
from tests.peers.identity_provider import IdentityProvider
from wicket_mcp.config.model.config import Config
from wicket_mcp.model import name_of

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)


class WebClient:
    """A web application that is a client, and whose pages a test writes."""

    def __init__(self) -> None:
        self.came_back: list[dict[str, str]] = []
        self.html = ""
        self.origin = ""

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["WebClient"]:
        app = web.Application()
        app.router.add_get("/callback", self._callback)
        app.router.add_get("/", self._page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _callback(self, request: web.Request) -> web.Response:
        self.came_back.append(dict(request.query))
        return web.Response(text="back")

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=self.html, content_type="text/html")


@asynccontextmanager
async def browsing(open_gateway: OpenGateway) -> AsyncGenerator[tuple[Any, Flow, WebClient]]:
    """A page of a browser, the gateway, and a client that has registered."""
    async with flow(open_gateway) as (client, _), WebClient().serve() as site, playwright.async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            client.base = client.base.replace("127.0.0.1", "localhost")  # another site than the client's
            client.redirect_uri = f"{site.origin}/callback"
            await client.register(client_name="<script>document.title='owned'</script>")
            yield await browser.new_page(), client, site
        finally:
            await browser.close()


def address(client: Flow, state: str = "s") -> str:
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": state,
    }
    return f"{client.base}/oauth/authorize?{urlencode(query)}"


async def test_a_person_allows_a_client_and_need_not_sign_in_again(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway) as (page, client, site):
        await page.goto(address(client))
        assert await page.title() == "Allow access? · Wicket"
        assert "<script>document.title" in await page.inner_text("h1")
        await page.fill("#credential", "wrong")
        await page.click("text=Allow >> nth=-1")
        assert "neither this gateway" in await page.inner_text("[role=alert]")
        await page.fill("#credential", TOKEN)
        await page.click("button[value=approve]")
        await page.wait_for_url(f"{site.origin}/callback*")
        assert (site.came_back[0]["state"], site.came_back[0]["iss"]) == ("s", client.base)
        status, issued = await client.redeem(site.came_back[0]["code"])
        assert (status, issued["scope"]) == (200, "discover invoke")

        await page.goto(address(client, "second"))
        assert await page.query_selector("#credential") is None
        assert "signed in as the owner" in await page.inner_text("main")
        await page.uncheck("input[value=invoke]")
        await page.click("button[value=approve]")
        await page.wait_for_url(f"{site.origin}/callback*state=second*")
        assert (await client.redeem(site.came_back[1]["code"]))[1]["scope"] == "discover"

        assert client.gateway is not None
        key, _ = await client.gateway.registry.keys.create("ann", ["discover", "invoke"])
        await page.goto(address(client, "third"))
        await page.click("text=Use another account")
        await page.fill("#credential", key)
        await page.click("button[value=approve]")
        await page.wait_for_url(f"{site.origin}/callback*state=third*")
        assert [name_of(grant.principal) for grant in await client.gateway.store.grants()] == ["local", "local", "ann"]
        await page.goto(address(client, "fourth"))
        assert "signed in as ann" in await page.inner_text("main")


async def test_a_person_denies_a_client(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway) as (page, client, site):
        await page.goto(address(client))
        await page.click("button[value=deny]")
        await page.wait_for_url(f"{site.origin}/callback*")
        query = parse_qs(urlsplit(str(page.url)).query)
        assert (query["error"], query["state"]) == (["access_denied"], ["s"])


async def test_another_site_can_neither_frame_the_page_nor_post_for_it(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway) as (page, client, site):
        await page.goto(address(client))
        await page.fill("#credential", TOKEN)
        await page.click("button[value=approve]")
        await page.wait_for_url(f"{site.origin}/callback*")

        site.html = f'<iframe src="{address(client).replace("&", "&amp;")}"></iframe>'
        await page.goto(site.origin)
        assert len(page.frames) == 2
        assert await page.frames[-1].query_selector("button[value=approve]") is None  # the browser's own error page

        sealed = await client.sealed()
        site.html = f"""<form method="post" action="{client.base}/oauth/authorize">
            <input name="request" value="{sealed}"><input name="decision" value="approve">
            <input name="scope" value="invoke"></form><script>document.forms[0].submit()</script>"""
        async with page.expect_navigation(url=f"{client.base}/oauth/authorize"):
            await page.goto(site.origin)
        assert "sent by another page" in await page.content()
        assert len(site.came_back) == 1


async def test_a_person_allows_a_client_and_signs_in_with_a_provider(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, browsing(open_gateway) as (page, client, site):
        issuer = {"issuer": provider.issuer, "client_id": "wicket", "client_secret": "hush"}
        http = {"authorization": {"enabled": True}, "issuers": [{**issuer, "scopes": {"staff": ["invoke"]}}]}
        gateway = client.gateway
        assert gateway is not None
        gateway.apply(Config.from_dict({"http": http, "state_dir": str(gateway.config.state_path)}))
        await page.goto(address(client))
        await page.click(f"button[value='{provider.issuer}']")
        await page.wait_for_url(f"{site.origin}/callback*")
        assert (site.came_back[0]["state"], site.came_back[0]["iss"]) == ("s", client.base)
        assert (await client.redeem(site.came_back[0]["code"]))[1]["scope"] == "invoke"
        await page.goto(address(client, "second"))
        assert "signed in as ann@example.com" in await page.inner_text("main")
