"""`wicket serve --http --workers N` as a process, and its workers."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server
from tests.gateway.serving import Raw, raw_client, toml_of


@dataclass
class Served:
    """A master that serves."""

    process: asyncio.subprocess.Process
    address: str
    client: Raw

    def workers(self) -> list[int]:
        """The process ids of its workers."""
        command = ("ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid))
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        return [int(line.split()[0]) for line in listed.stdout.splitlines() if "wicket_mcp" in line]

    async def call(self, name: str, **arguments: Any) -> Any:
        """The result of a tool, for a client that keeps no session."""
        params = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
        status, body = await self.client.modern("tools/call", params)
        assert status == 200, body
        return body["result"]


Start = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    @asynccontextmanager
    async def started(
        servers: dict[str, Server], workers: int, options: str = "", more: tuple[str, ...] = ()
    ) -> AsyncGenerator[Served]:
        config = tmp_path / "wicket.toml"
        config.write_text(f"{options}\n{toml_of(servers)}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0", "--no-auth"),
            *("--workers", str(workers), "--config", str(config), *more),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "WICKET_LOG": "warning"},
        )
        draining: asyncio.Task[bytes] | None = None
        try:
            assert process.stderr is not None
            line = b""
            while b"wicket: serving" not in line:
                line = await process.stderr.readline()
                assert line, "it ended"
            draining = asyncio.create_task(process.stderr.read())
            address = line.decode().split(" at ")[1].split()[0]
            async with raw_client(address) as client:
                yield Served(process, address, client)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()
            if draining is not None:
                await draining

    return started
