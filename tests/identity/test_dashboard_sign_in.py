"""People sign in to the dashboard with an OpenID provider; groups decide whether they see everything or their own."""

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import aiohttp
import pytest

from tests import needs
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import TOKEN, serve_http
from tests.identity.browser import browse
from tests.peers.identity_provider import IdentityProvider
from tests.peers.protected import Protected
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.claims import person_name
from wicket_mcp.store.model import AuditQuery, CallRecord

RIGHTS = {"staff": ["discover", "invoke"], "admins": ["discover", "invoke", "admin"]}


class Visitor:
    """A browser without script, which sends every cookie it was given."""

    def __init__(self, session: aiohttp.ClientSession, root: str) -> None:
        self.session, self.root = session, root
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, address: str, **form: str) -> tuple[int, str, str]:
        """Status, text and where it leads."""
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        asked = self.session.request(method, address, data=form or None, headers=sent, allow_redirects=False)
        async with asked as answer:
            for line in answer.headers.getall("Set-Cookie", []):
                name, _, value = line.partition(";")[0].partition("=")
                self.cookies[name] = value
            text = await answer.text()
            onward = re.findall(r'content="0;url=([^"]+)"', text)
            return answer.status, text, unescape(onward[0]) if onward else answer.headers.get("Location", "")

    async def get(self, path: str) -> tuple[int, str]:
        return (await self.ask("GET", self.root + path))[:2]

    async def leave(self, provider: IdentityProvider) -> str:
        status, text, address = await self.ask("POST", f"{self.root}/ui/sign-in", provider=provider.issuer)
        assert status == 200, text
        assert address.startswith(provider.issuer)
        return address

    async def come_back(self, address: str) -> tuple[int, str, str]:
        _, _, back = await self.ask("GET", address)
        return await self.ask("GET", back)


@asynccontextmanager
async def visiting(
    open_gateway: OpenGateway, provider: IdentityProvider, **http: Any
) -> AsyncGenerator[tuple[Visitor, Gateway]]:
    issuer = {"issuer": provider.issuer, "client_id": "wicket", "client_secret": "hush", "scopes": RIGHTS}
    async with open_gateway({"echo": peer("Echo")}, http={"issuers": [issuer], **http}) as gateway:
        async with serve_http(gateway) as address:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
                yield Visitor(session, address.removesuffix("/mcp")), gateway


def record(principal: str, tool: str) -> CallRecord:
    return CallRecord(9e9, principal, "echo", tool, "", "ok", 1.0, 1)


@pytest.mark.parametrize("http", [{}, {"authorization": {"enabled": True}}])
async def test_a_person_signs_in_and_sees_their_own_alone(open_gateway: OpenGateway, http: dict[str, Any]) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider, **http) as (visitor, gateway):
        ann = person_name(provider.issuer, "ann")
        gateway.store.record_call(record(ann, "of_ann"))
        gateway.store.record_call(record("bob", "of_bob"))
        _, page = await visitor.get("/ui/sign-in")
        assert "Sign in with 127.0.0.1" in page
        status, _, onward = await visitor.come_back(await visitor.leave(provider))
        assert (status, onward) == (200, "/ui")
        _, text = await visitor.get("/ui/activity")
        assert ("of_ann" in text, "of_bob" in text, "ann@example.com" in text) == (True, False, True)
        assert (await visitor.get("/ui/settings"))[0] == 403
        acts = await gateway.store.find_calls(AuditQuery(principal=ann, method="admin"))
        assert [act.tool for act in acts] == ["sign-in"]
        metadata = await visitor.get("/.well-known/oauth-authorization-server")
        assert metadata[0] == (200 if http else 404) or "issuer" not in metadata[1]


async def test_a_group_makes_an_administrator_and_its_rights_end_with_the_configuration(
    open_gateway: OpenGateway,
) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        provider.person["groups"] = ["admins"]
        gateway.store.record_call(record("bob", "of_bob"))
        await visitor.come_back(await visitor.leave(provider))
        assert "of_bob" in (await visitor.get("/ui/activity"))[1]
        assert (await visitor.get("/ui/settings"))[0] == 200
        gateway.apply(Config.from_dict({"state_dir": str(gateway.config.state_path)}))
        _, page = await visitor.get("/ui/activity")
        assert ("of_bob" in page, "Sign in with" in page, 'name="token"' in page) == (False, False, True)


async def test_signing_out_needs_another_visit(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, _):
        await visitor.come_back(await visitor.leave(provider))
        _, text = await visitor.get("/ui")
        (csrf,) = {*re.findall('name="csrf" value="([^"]+)"', text)}
        cookies = dict(visitor.cookies)
        assert (await visitor.ask("POST", f"{visitor.root}/ui/sign-out", csrf=csrf))[0] == 303
        visitor.cookies = cookies
        assert "Sign in with" in (await visitor.get("/ui"))[1]


async def test_who_is_allowed_nothing_or_comes_from_elsewhere_stays_outside(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        provider.person["groups"] = ["guests"]
        status, text, _ = await visitor.come_back(await visitor.leave(provider))
        assert (status, "is allowed nothing here" in text) == (401, True)
        provider.person["groups"] = ["admins"]
        address = await visitor.leave(provider)
        stolen, visitor.cookies = visitor.cookies, {}  # an address that somebody else began to use
        status, text, _ = await visitor.come_back(address)
        assert (status, "another browser" in text) == (400, True)
        visitor.cookies = stolen
        assert "Sign in with" in (await visitor.get("/ui"))[1]
        strange = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        form = {"provider": provider.issuer}
        async with visitor.session.post(f"{visitor.root}/ui/sign-in", data=form, headers=strange) as answer:
            assert answer.status == 403
        assert (await visitor.ask("POST", f"{visitor.root}/ui/sign-in", provider="https://other.example"))[0] == 400
        assert gateway.audit.rejections >= 1


async def test_a_real_browser_keeps_the_cookies_on_the_way(open_gateway: OpenGateway) -> None:
    playwright = pytest.importorskip("playwright.async_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip(needs.CHROMIUM)
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, _):
        async with playwright.async_playwright() as play:
            browser = await play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            try:
                page = await browser.new_page()
                # Another name for this machine, so that provider and gateway are different sites.
                await page.goto(f"{visitor.root.replace('127.0.0.1', 'localhost')}/ui")
                await page.click("text=Sign in with 127.0.0.1")
                await page.wait_for_selector("h1:text('Overview')")
                assert "ann@example.com" in await page.inner_text(".who")
                await page.click("nav >> text=Servers")
                await page.wait_for_selector("h1:text('Servers')")
                await page.click("text=Sign out")
                await page.fill("#token", TOKEN)
                await page.keyboard.press("Enter")
                await page.wait_for_selector("h1:text('Overview')")
                assert "local" in await page.inner_text(".who")
            finally:
                await browser.close()


async def test_the_owner_signs_in_to_a_server_from_its_page(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        async with serve_http(gateway) as address, aiohttp.ClientSession() as session:
            visitor = Visitor(session, address.removesuffix("/mcp"))
            assert (await gateway.servers())[0].state == "needs sign-in"
            assert (await visitor.ask("POST", f"{visitor.root}/ui/sign-in", token=TOKEN))[0] == 303
            assert '<a href="/ui/servers/x">Sign in to x</a>' in (await visitor.get("/ui"))[1]
            _, page = await visitor.get("/ui/servers/x")
            assert '<button class="primary">Sign in to x</button>' in page
            (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
            button = f"{visitor.root}/ui/servers/x/sign-in"
            assert (await visitor.ask("POST", button, csrf="of another page"))[0] == 403
            status, page, _ = await visitor.ask("POST", button, csrf=csrf)
            (link,) = re.findall(r'href="([^"]+)" rel="noopener noreferrer">continue there', page)
            assert (status, (await browse(unescape(link)))[0]) == (200, 200)
            assert (await gateway.call("x.whoami"))["content"][0]["text"] == "ann"
            _, page = await visitor.get("/ui/servers/x")
            assert "Sign in to x" not in page


async def test_each_user_signs_in_from_the_page_before_any_call_and_only_to_their_own_account(
    open_gateway: OpenGateway,
) -> None:
    servers = {"own": {"url": "", "credentials": "user"}, "shared": {"url": ""}}
    async with Protected() as remote:
        for options in servers.values():
            options["url"] = remote.url
        async with open_gateway(servers) as gateway, serve_http(gateway) as address:
            assert [status.state for status in await gateway.servers()] == ["needs sign-in"] * 2
            key, stored = await gateway.registry.keys.create("bob", ["discover", "invoke"])
            async with aiohttp.ClientSession() as session:
                visitor = Visitor(session, address.removesuffix("/mcp"))
                assert (await visitor.ask("POST", f"{visitor.root}/ui/sign-in", token=key))[0] == 303
                _, page = await visitor.get("/ui/servers/shared")
                assert ("ask the owner" in page, "Sign in to shared" in page) == (True, False)
                _, page = await visitor.get("/ui/servers/own")
                assert "You have not signed in yet" in page
                (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
                _, page, _ = await visitor.ask("POST", f"{visitor.root}/ui/servers/own/sign-in", csrf=csrf)
                (link,) = re.findall(r'href="([^"]+)" rel="noopener noreferrer">continue there', page)
                assert (await browse(unescape(link)))[0] == 200
                _, page = await visitor.get("/ui/servers/own")
                assert "Sign in to own" not in page
            assert await gateway.vault.names(stored.id) == ["oauth own"]
            assert await gateway.vault.names("local") == []
