"""MCP Inspector (npm), a published client and host, on its command line and as a web page in Chromium."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.suite import node
from tests.conftest import ROOT
from tests.eras.child import serving
from tests.peers.ports import free_port

HOME = ROOT / ".node" / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients"
CHROMIUM = shutil.which("chromium")


def installed() -> bool:
    return HOME.exists() and node() is not None


async def run_inspector(folder: Path, address: str, *arguments: str, token: str = "", era: str = "legacy") -> Any:
    """What the command line prints about a server, as data. Fails where it does."""
    header = ["--header", f"Authorization: Bearer {token}"] if token else []
    command = [str(node()), str(HOME / "cli" / "build" / "index.js"), "--format", "json", "--quiet"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *["--protocol-era", era, "--transport", "http", "--server-url", address],
        *header,
        *arguments,
        env={**os.environ, "HOME": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{process.returncode}: {err.decode()}{out.decode()}"
    printed = json.loads(out.splitlines()[-1])
    return printed.get("result", printed)


class Host:
    """The page in which Inspector shows interfaces, connected to one server."""

    def __init__(self, page: Any, asked: "asyncio.Queue[str]") -> None:
        """`asked` is what pages want from outside this machine."""
        self.page = page
        self._asked = asked

    async def open_app(self, title: str) -> Any:
        """Open an interface; the frame that it runs in, once it says something."""
        await self.page.get_by_text(title, exact=True).first.click()
        button = self.page.get_by_role("button", name="Open App")
        # Inspector's frame, the page that Wicket puts around an interface, and the interface.
        frame = self.page.frame_locator("iframe").frame_locator("iframe").frame_locator("iframe")
        shown = frame.locator("body")
        await button.or_(self.page.locator("iframe")).first.wait_for()
        if await button.count():
            await button.click()
        await shown.wait_for()
        return frame

    async def until_asked_for(self, site: str) -> None:
        """Wait until a page asks for something of this site."""
        while site not in await self._asked.get():
            pass

    async def connect(self) -> None:
        """Connect Inspector to its server. It loses a switch that is turned before its page has read everything."""
        connecting = asyncio.Event()

        def notice(request: Any) -> None:
            if "/api/mcp/connect" in request.url:
                connecting.set()

        self.page.on("request", notice)
        switch = self.page.get_by_role("switch").first
        for _ in range(4):
            await switch.press("Space")
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await connecting.wait()
                return
        raise AssertionError("MCP Inspector does not connect")

    async def close_app(self) -> None:
        await self.page.get_by_role("button", name="Close", exact=True).click()


async def refuse(asked: "asyncio.Queue[str]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a browser's proxy: note what is asked for, and hang up. What a page's policy forbids never comes here."""
    asked.put_nowait((await reader.readline()).decode())
    writer.close()


@asynccontextmanager
async def web_host(
    playwright: Any, folder: Path, address: str, token: str, era: str = "legacy"
) -> AsyncGenerator[Host]:
    """Inspector's web page in Chromium, connected to the server at `address`, with its interfaces on show."""
    ports = {"CLIENT_PORT": str(free_port()), "MCP_SANDBOX_PORT": str(free_port())}
    quiet = {"MCP_AUTO_OPEN_ENABLED": "false", "MCP_INSPECTOR_SECRET_STORE": "memory"}
    environment = {"HOME": str(folder), **quiet, **ports}
    command = [str(node()), str(HOME / "web" / "build" / "index.js"), "--transport", "http", "--server-url", address]
    header = ["--protocol-era", era, "--header", f"Authorization: Bearer {token}"]
    async with serving([*command, *header], environment, r"http://\S+MCP_INSPECTOR_API_TOKEN=\w+") as url:
        asked: asyncio.Queue[str] = asyncio.Queue()
        async with await asyncio.start_server(partial(refuse, asked), "127.0.0.1", 0) as proxy:
            port = proxy.sockets[0].getsockname()[1]
            # Not by the browser's own tools: they miss what a frame in a frame asks for in its first moments.
            options = ["--no-sandbox", f"--proxy-server=http://127.0.0.1:{port}"]
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=options)
            try:
                page = await browser.new_page()
                page.set_default_timeout(40_000)
                host = Host(page, asked)
                await page.goto(url)
                await host.connect()
                await page.get_by_text("Apps", exact=True).click()
                yield host
            finally:
                await browser.close()
