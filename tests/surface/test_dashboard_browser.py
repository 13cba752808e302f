"""The dashboard in a real browser: it works without a defect, nothing a server says runs, and everybody can use it.

Needs Debian's `chromium`, and for the check of accessibility `axe-core` from npm (scripts/node). With
`WICKET_SCREENSHOTS=FOLDER` pictures are left there for a person to look at.
"""

import os
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import needs
from tests.conftest import ROOT, OpenGateway, Server, peer
from tests.gateway.serving import TOKEN, serve_http
from tests.peers.stdio_peer import HOSTILE
from wicket_mcp import Gateway
from wicket_mcp.errors import WicketError
from wicket_mcp.store.model import CallRecord
from wicket_mcp.surface.dashboard.render import PAGES

playwright = pytest.importorskip("playwright.async_api")
CHROMIUM = shutil.which("chromium")
AXE = Path(os.environ.get("WICKET_TEST_AXE", ROOT / ".node" / "node_modules" / "axe-core" / "axe.min.js"))
MOST_TABS = 60
BROKEN_WORDS = """
    [...document.querySelectorAll(".ledger .num, .settings .tag")].filter((part) => {
        const text = document.createRange();
        text.selectNodeContents(part);
        return new Set([...text.getClientRects()].map((line) => line.top)).size > 1;
    }).map((part) => part.textContent)
"""
"""Numbers and sources that take more than one line."""
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=needs.CHROMIUM)


class Browser:
    """One page, signed in; remembers what went wrong in it."""

    def __init__(self, page: Any, root: str, gateway: Gateway) -> None:
        self.page, self.root, self.gateway = page, root, gateway
        self.problems: list[str] = []
        page.on("pageerror", self._fail)
        page.on("console", self._hear)

    def _fail(self, problem: Any) -> None:
        self.problems.append(str(problem))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    async def open(self, path: str) -> None:
        await self.page.goto(self.root + path)

    async def tab_to(self, selector: str) -> None:
        """Press Tab until this element has the focus, and check that it shows."""
        wanted = await self.page.wait_for_selector(selector)
        for _ in range(MOST_TABS):
            await self.page.keyboard.press("Tab")
            if await wanted.evaluate("(element) => element === document.activeElement"):
                assert await wanted.evaluate("(element) => getComputedStyle(element).outlineStyle") != "none", selector
                return
        raise AssertionError(f"Tab never reaches {selector}")

    async def picture(self, name: str) -> None:
        if folder := os.environ.get("WICKET_SCREENSHOTS"):
            await self.page.screenshot(path=f"{folder}/{name}.png")


@asynccontextmanager
async def browsing(open_gateway: OpenGateway, servers: dict[str, Server], **options: Any) -> AsyncGenerator[Browser]:
    async with open_gateway(servers) as gateway, serve_http(gateway) as address, playwright.async_playwright() as play:
        await gateway.catalogue.complete()
        chromium = await play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = await (await chromium.new_context(**options)).new_page()
            browser = Browser(page, address.removesuffix("/mcp"), gateway)
            await browser.open("/ui")
            await page.fill("#token", TOKEN)
            await page.keyboard.press("Enter")
            await page.wait_for_selector("h1:text('Overview')")
            yield browser
        finally:
            await chromium.close()


async def test_a_person_looks_around_and_calls_a_tool(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway, {"echo": peer("Echo")}) as browser:
        page = browser.page
        for name in PAGES:
            await page.click(f"nav >> text={name.capitalize()}")
            await page.wait_for_selector(f"h1:has-text('{name.capitalize()}')")
            await browser.picture(name)
        await browser.open("/ui/tools/echo.echo")
        await page.fill("textarea", "hello from a browser")
        await page.click("text=Call echo")
        assert await page.inner_text("pre.answer") == "hello from a browser"
        await browser.open("/ui/settings")
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.click("[aria-label='Copy for Claude Code']")
        await page.wait_for_selector("button:text('Copied')")
        assert f"{browser.root}/mcp" in await page.evaluate("navigator.clipboard.readText()")
        await browser.open("/ui/search?q=echo+a+message")
        assert await page.inner_text(".hits li a") == "echo.echo"
        assert browser.problems == []


async def test_what_goes_on_appears_by_itself(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway, {"echo": peer("Echo")}) as browser:
        await browser.open("/ui/activity")
        await browser.gateway.call("echo.echo", {"message": "hello"})
        await browser.page.wait_for_selector("td:has-text('echo.echo')")
        slow = browser.gateway.tasks.start(browser.gateway.call("echo.slow"), "slow", awaited=True)
        await browser.page.wait_for_selector(".running li:has-text('echo.slow')")
        await browser.gateway.call("echo.release")
        await slow
        await browser.page.wait_for_selector("td:has-text('echo.slow')")
        assert browser.problems == []


async def test_everything_is_reached_and_done_with_the_keyboard(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway, {"echo": peer("Echo")}) as browser:
        page = browser.page
        await page.keyboard.press("Tab")
        assert await page.inner_text(":focus") == "Skip to content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        for name in PAGES:
            await browser.open("/ui")
            await browser.tab_to(f"nav a >> text={name.capitalize()}")
            await page.keyboard.press("Enter")
            await page.wait_for_selector(f"h1:has-text('{name.capitalize()}')")
        await browser.open("/ui/tools")
        await page.keyboard.press("/")
        await page.keyboard.type("echo.echo")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/ui/tools?q=echo.echo*")
        await browser.tab_to("ul.tools a >> nth=0")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:text('echo')")
        await browser.tab_to("textarea")
        await page.keyboard.type("without a mouse")
        await browser.tab_to("text=Call echo")
        await page.keyboard.press("Enter")
        assert await page.inner_text("pre.answer") == "without a mouse"
        await browser.open("/ui/servers/echo")
        await browser.tab_to("button:text-is('Stop')")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".state.idle")
        await browser.open("/ui")
        await browser.tab_to("summary")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("details[open] table")
        await browser.tab_to("button:text-is('Sign out')")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#token:focus")
        assert browser.problems == []


async def test_nothing_that_a_server_says_runs(open_gateway: OpenGateway) -> None:
    async with browsing(open_gateway, {"hostile": peer("Hostile")}) as browser:
        page = browser.page
        await browser.open("/ui/tools/hostile.attack")
        assert "<script>window.hurt=1</script>" in await page.inner_text("main")
        await page.click("button.primary")
        assert "<script>window.hurt=1</script>" in await page.inner_text("pre.answer")
        await browser.gateway.call("hostile.attack", {"pick": "b"})
        while "window.hurt" not in "".join(browser.gateway.pool.stderr("hostile")):
            await browser.gateway.call("hostile.attack", {"pick": "b"})  # its last words may come after its answer
        with pytest.raises(WicketError):
            await browser.gateway.call(f"hostile.{HOSTILE}")
        browser.gateway.audit.act(HOSTILE, HOSTILE, HOSTILE)
        script = "/search?q=%3Cscript%3Ewindow.hurt=1%3C/script%3E"
        for path in ("", *(f"/{name}" for name in PAGES), "/servers/hostile", script):
            await browser.open(f"/ui{path}")
            assert await page.evaluate("window.hurt === undefined"), path
            assert "49" not in await page.inner_text("h1"), path
            if path == "/servers/hostile":
                assert "<script>window.hurt=1</script>" in await page.inner_text("pre.wrap")
        assert browser.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_everybody_can_use_it(open_gateway: OpenGateway, scheme: str, width: int) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    async with browsing(open_gateway, {"echo": peer("Echo")}, **options) as browser:
        page = browser.page
        await browser.gateway.call("echo.fails")
        for number in range(3):
            call = CallRecord(time.time() - number, "local", "echo", "echo", "", "ok", 9.0, 1, run="r1")
            browser.gateway.store.record_call(replace(call, steps={"resolve": 1.0, "server": 8.0}))
        await browser.gateway.registry.keys.create("ci", {"discover"})
        for path in (
            "",
            *(f"/{name}" for name in PAGES if name != "overview"),
            "/servers/echo",
            "/tools/echo.big",
            "/activity?run=r1",
        ):
            await browser.open(f"/ui{path}")
            await page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
            wider = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wider <= 0, path
            assert await page.evaluate(BROKEN_WORDS) == [], path
            if AXE.exists():
                await page.evaluate(AXE.read_text("utf-8"))
                found = await page.evaluate("axe.run()")
                assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == [], path
    if not AXE.exists():
        pytest.skip(needs.NPM_SERVERS)
