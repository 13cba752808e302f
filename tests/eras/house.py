"""Wicket between a client and an upstream, started for real: two child processes, or three, and a client.

A `Line` is one link of the matrix, ready to be used by many tests; it is expensive to set up and kept open by a task of
its own, because the SDK's client must be left by the task that entered it.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mcp import StdioServerParameters

from tests.conftest import NODE_SERVERS, ROOT, Server
from tests.eras.chair import SERVER, Chair, Door, seated
from tests.eras.child import serving
from tests.eras.table import Link
from tests.gateway.serving import toml_of
from tests.peers.ports import free_port
from wicket_mcp.tasks import Tasks

T = TypeVar("T")
UPSTREAM = ("-m", "tests.eras.upstream")
TIMEOUT = 3
"""Seconds in which the upstream must give a sign of life."""
DIALECTS = ("--dialect", "flat", "--dialect", "native")


class Kept(Generic[T]):
    """A context that is entered and left by a task of its own."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._context = context
        self._tasks = Tasks()
        self._leave = asyncio.Event()
        self._value: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> T:
        self._task = self._tasks.start(self._hold(), "hold a context")
        await asyncio.wait({self._task, self._value}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()
        return self._value.result()

    async def __aexit__(self, *_: object) -> None:
        self._leave.set()
        await self._task

    async def _hold(self) -> None:
        async with self._context as value:
            self._value.set_result(value)
            await self._leave.wait()


@dataclass
class Line:
    """A link that is up: the chair that is always taken, and the door through which others come in."""

    link: Link
    chair: Chair
    door: Door
    stack: AsyncExitStack
    _quiet: Chair | None = None

    def visitor(self) -> AbstractAsyncContextManager[Chair]:
        """Another client at the same door (over stdio: at the door of a Wicket of its own)."""
        return seated(self.door, self.link.client)

    async def quiet(self) -> Chair:
        """Another client, which can be asked nothing. Stays once it has come."""
        if self._quiet is None:
            coming = Kept(seated(self.door, self.link.client, capable=False))
            self._quiet = await self.stack.enter_async_context(coming)
        return self._quiet


@asynccontextmanager
async def upstream(link: Link) -> AsyncGenerator[Server]:
    """The configuration of the matrix's own upstream."""
    if link.far == "stdio":
        yield {"command": sys.executable, "args": [*UPSTREAM, link.upstream], "cwd": str(ROOT)}
        return
    async with serving([sys.executable, *UPSTREAM, link.upstream, "--http"]) as address:
        yield {"url": address}


@asynccontextmanager
async def everything(link: Link) -> AsyncGenerator[Server]:
    """The configuration of the published server of the legacy era."""
    command = str(NODE_SERVERS / "mcp-server-everything")
    if link.far == "stdio":
        yield {"command": command, "args": ["stdio"]}
        return
    port = free_port()
    said = "listening on port"
    async with serving([command, "streamableHttp"], {"PORT": str(port)}, until=said):
        yield {"url": f"http://127.0.0.1:{port}/mcp"}


@asynccontextmanager
async def line(link: Link, server: AbstractAsyncContextManager[Server], **options: Any) -> AsyncGenerator[Line]:
    """All of it; `options` are added to the upstream's configuration."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # A server that clients share is offered nobody's roots, and the matrix has a cell for them.
        shared = {"isolation": "session"} if link.near == "http" and link.upstream == "legacy" else {}
        config = {
            "connect_timeout": 30,
            "timeout": TIMEOUT,
            **shared,
            **await stack.enter_async_context(server),
        } | options
        door = await stack.enter_async_context(wicket(link, folder, config))
        chair = await stack.enter_async_context(seated(door, link.client))
        yield Line(link, chair, door, stack)


@asynccontextmanager
async def wicket(link: Link, folder: Path, server: Server) -> AsyncGenerator[Door]:
    """Wicket, running where it is reached over HTTP, ready to be started by its client otherwise."""
    file = folder / "wicket.toml"
    file.write_text(f'unprefixed = true\nstate_dir = "{folder}"\n{toml_of({SERVER: server})}')
    command = ["-m", "wicket_mcp", "serve", "--config", str(file), *DIALECTS]
    own = {name: value for name, value in os.environ.items() if name.startswith("WICKET_")}
    environment = {"WICKET_LOG": "warning", **own}
    if link.near == "stdio":
        yield StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
        return
    reached = [sys.executable, *command, "--http", "127.0.0.1:0", "--no-auth"]
    async with serving(reached, environment) as address:
        yield address
