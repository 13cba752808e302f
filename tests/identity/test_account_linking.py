"""A page of somebody else's tries to connect its visitor's account for the one who began the sign-in, in Chromium."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.conftest import OpenGateway
from tests.gateway.serving import serve_http
from tests.identity.browser import jar
from tests.identity.test_consent_page import CHROMIUM, WebClient, playwright
from tests.identity.test_own_accounts import own
from tests.peers.protected import Protected
from wicket_mcp.identity.oauth.signin import Pending
from wicket_mcp.model import SCOPES, Principal

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
MAL = Principal("mal", SCOPES)
_POST = """([action, nonce]) => {
    document.body.innerHTML = `<form method="post" action="${action}" target="victim"><input name="nonce"></form>`;
    document.forms[0].nonce.value = nonce;
    document.forms[0].submit();
}"""


@asynccontextmanager
async def lured(open_gateway: OpenGateway) -> AsyncGenerator[tuple[Protected, Pending, Any]]:
    """A server whose authorization server asks nobody again, a sign-in that mal began, and a page of mal's on another
    site that the victim visits.
    """
    async with Protected(account="victim") as remote, open_gateway({"x": own(remote)}) as gateway:
        async with serve_http(gateway, token=None), WebClient().serve() as site, playwright.async_playwright() as tools:
            browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), MAL)
                page = await browser.new_page()
                site.html = "<p>Win a prize!</p>"
                await page.goto(site.origin.replace("127.0.0.1", "localhost"))
                yield remote, pending, page
            finally:
                await browser.close()


async def open_window(page: Any, link: str) -> Any:
    """What one click on a page of mal's opens."""
    async with page.expect_popup() as opened:
        await page.evaluate("(link) => { window.victim = open(link, 'victim') }", link)
    window = await opened.value
    await window.wait_for_load_state()
    return window


async def look_first(link: str) -> tuple[str, str]:
    """What mal knows from a browser of their own: the nonce that its page has, and where its button leads."""
    async with aiohttp.ClientSession(cookie_jar=jar()) as session:
        async with session.get(link) as answer:
            (nonce,) = re.findall(r'name="nonce" value="([^"]+)"', await answer.text())
        sent: dict[str, Any] = {
            "headers": {"Origin": link.partition("/oauth")[0]},
            "data": {"nonce": nonce},
            "allow_redirects": False,
        }
        async with session.post(link, **sent) as answer:
            return nonce, answer.headers["Location"]


@pytest.mark.parametrize("way", ["the address behind the page", "the provider's address", "the form"])
@pytest.mark.promise("T9", "A page of another site cannot connect its visitor's account for somebody else.")
async def test_t9_a_page_of_another_site_cannot_connect_its_visitors_account(
    way: str, open_gateway: OpenGateway
) -> None:
    """W9."""
    async with lured(open_gateway) as (remote, pending, page):
        window = await open_window(page, pending.link)
        assert "Everyone who uses this gateway as 'mal' will act there with your account" in await window.content()
        async with window.expect_navigation():
            if way == "the address behind the page":
                await page.evaluate("(link) => { victim.location = link }", f"{pending.link}?go")
            elif way == "the provider's address":
                _, provider = await look_first(pending.link)
                await page.evaluate("(link) => { victim.location = link }", provider)
            else:
                nonce, _ = await look_first(pending.link)
                await page.evaluate(_POST, [pending.link, nonce])
        assert "You are signed in" not in await window.content()
        assert not remote.seen("/token")


async def test_a_person_who_presses_the_button_is_signed_in(open_gateway: OpenGateway) -> None:
    """W9."""
    async with lured(open_gateway) as (_, pending, page):
        await page.goto(pending.link)
        await page.click("button")
        await page.wait_for_url(re.compile("/oauth/callback"))
        assert "You are signed in to 'x'" in await page.inner_text("body")
        await pending.wait()


async def test_the_button_needs_the_origin_the_cookie_and_the_nonce_of_its_own_page(open_gateway: OpenGateway) -> None:
    """W9."""
    async with lured(open_gateway) as (remote, pending, _):
        origin = pending.link.partition("/oauth")[0]
        async with aiohttp.ClientSession(cookie_jar=jar()) as session:
            async with session.get(pending.link) as answer:
                (nonce,) = re.findall(r'name="nonce" value="([^"]+)"', await answer.text())

            async def press(nonce: str, **headers: str) -> int:
                fields = {name.replace("_", "-"): value for name, value in headers.items()}
                sent: dict[str, Any] = {"data": {"nonce": nonce}, "headers": fields, "allow_redirects": False}
                async with session.post(pending.link, **sent) as answer:
                    return answer.status

            assert await press(nonce) == 403
            assert await press(nonce, Origin="http://127.0.0.1:1") == 403  # another program's port on this machine
            assert await press(nonce, Origin=origin, Sec_Fetch_Site="cross-site") == 403
            assert await press("", Origin=origin) == 200  # the page again
            other, _ = await look_first(pending.link)
            assert other != nonce
            assert await press(other, Origin=origin) == 200
            assert await press(nonce, Origin=origin, Sec_Fetch_Site="same-origin") == 303
            async with session.get(f"{origin}/oauth/callback?state=unknown&code=1") as answer:
                assert answer.status == 403
            assert not remote.seen("/token")
