"""`wicket dashboard`: what it hands over, to whom, and what other users of the machine can see of it."""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web

from tests.cli.shell import Done, Shell, Terminal
from tests.conftest import OpenGateway
from tests.gateway.serving import TOKEN, serve_http
from tests.peers.ports import free_port

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TOLD = 'import pathlib, sys; pathlib.Path("told").write_text(sys.argv[1])'


class Squatter:
    """Another user's program on a port of ours: it answers everything, and asks a real gateway if it knows one."""

    def __init__(self, ahead: str = "") -> None:
        self._ahead = ahead
        self.asked: list[str] = []
        self.passed_on: list[str] = []

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[int]:
        app = web.Application()
        app.router.add_get("/{tail:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        if not self._ahead:
            return web.Response(text="")
        async with aiohttp.ClientSession() as session, session.get(f"{self._ahead}{request.path_qs}") as answer:
            self.passed_on.append(await answer.text())
            return web.Response(status=answer.status, text=self.passed_on[-1])


def configured(shell: Shell, port: int, browser: str = "") -> Path:
    option = f'[oauth]\nbrowser = "{browser}"\n' if browser else ""
    shell.config.parent.mkdir(parents=True, exist_ok=True)
    shell.config.write_text(f"[http]\nport = {port}\n{option}")
    return shell.config


def sharing(shell: Shell) -> Shell:
    """The same person, who gives the gateway's token to commands by its variable."""
    return Shell(shell.home, shell.cwd, {"WICKET_TOKEN": TOKEN, "WICKET_RUNTIME_DIR": str(shell.home / "run")})


async def open_on_terminal(shell: Shell) -> Done:
    with Terminal(shell, ["dashboard"], 100) as terminal:
        return await asyncio.to_thread(terminal.finish)


@pytest.mark.parametrize("asks_a_gateway", [False, True])
@pytest.mark.promise("T18", "A program on Wicket's port that is not the gateway gets no link from `wicket dashboard`.")
async def test_t18_a_squatter_on_the_port_gets_no_code(
    shell: Shell, open_gateway: OpenGateway, *, asks_a_gateway: bool
) -> None:
    """W32: not even if it passes the question on to the real gateway at another port."""
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        squatter = Squatter(address.removesuffix("/mcp") if asks_a_gateway else "")
        async with squatter.serve() as port:
            configured(shell, port)
            done = await asyncio.to_thread(sharing(shell).run, "dashboard", "--no-open")
    assert (done.code, "No gateway with your token answers" in done.err) == (1, True), done
    assert (len(squatter.asked), [text for text in squatter.asked if "code" in text]) == (1, [])
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in squatter.passed_on)
    assert len(squatter.passed_on) == asks_a_gateway


async def test_the_code_is_in_no_argument_of_the_browser_and_in_no_file_of_others(
    shell: Shell, open_gateway: OpenGateway
) -> None:
    """W32."""
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        root = address.removesuffix("/mcp")
        shell.write("work/browser.py", TOLD)
        configured(shell, urlsplit(root).port or 0, f"{sys.executable} browser.py")
        done = await open_on_terminal(sharing(shell))
        assert (done.code, "is open in your browser" in done.out, "code=" in done.out) == (0, True, False), done
        told = (shell.cwd / "told").read_text()
        page = Path(urlsplit(told).path)
        assert (told.startswith("file:///"), "code=" in told) == (True, False)
        assert page.stat().st_mode & 0o777 == 0o600
        (link,) = set(re.findall(r'url=([^"]+)"', page.read_text()))
        assert link.startswith(f"{root}/ui/sign-in?code=")
        assert TOKEN not in page.read_text()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(link):
                pass
            async with session.get(f"{root}/ui") as answer:
                assert "Overview" in await answer.text()
        async with aiohttp.ClientSession() as session, session.get(link) as answer:
            assert answer.status == 401


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
async def test_the_page_opens_the_dashboard_in_a_browser(shell: Shell, open_gateway: OpenGateway) -> None:
    """W32."""
    playwright = pytest.importorskip("playwright.async_api")
    async with open_gateway({}) as gateway, serve_http(gateway) as address, playwright.async_playwright() as tools:
        shell.write("work/browser.py", TOLD)
        configured(shell, urlsplit(address).port or 0, f"{sys.executable} browser.py")
        done = await open_on_terminal(sharing(shell))
        assert done.code == 0, done
        browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = await browser.new_page()
            await page.goto((shell.cwd / "told").read_text())
            await page.wait_for_url(re.compile("/ui$"))
            assert await page.inner_text("h1") == "Overview"
        finally:
            await browser.close()


async def test_a_gateway_that_needs_no_token_is_named_and_gets_no_code(shell: Shell, open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway, token=None) as address:
        configured(shell, urlsplit(address).port or 0)
        done = await asyncio.to_thread(sharing(shell).run, "dashboard", "--no-open")
    assert (done.code, "--no-auth needs no link" in done.err) == (1, True)


async def test_without_a_gateway_the_command_says_how_to_start_one(shell: Shell) -> None:
    configured(shell, free_port())
    done = await asyncio.to_thread(sharing(shell).run, "dashboard", "--no-open")
    assert (done.code, "wicket serve --http" in done.err, parse_qs(done.out)) == (1, True, {})
