"""A machine with clients that share a daemon, in a folder of its own; whatever daemons it has are gone afterwards."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server
from tests.gateway.serving import Command, toml_of
from wicket_mcp.daemon.control import find_daemons

PYTHON = sys.executable


@dataclass
class Machine:
    """Where clients are started, all with the same line."""

    folder: Path
    runtime: Path
    clients: list[Command] = field(default_factory=list[Command])
    python: str = PYTHON

    @property
    def environ(self) -> dict[str, str]:
        own = {"WICKET_RUNTIME_DIR": str(self.runtime), "XDG_STATE_HOME": str(self.folder / "state")}
        kept = {name: value for name, value in os.environ.items() if name not in ("WICKET_NO_DAEMON", "WICKET_LOG")}
        return {**kept, **own}

    def configure(self, servers: dict[str, Server], options: str = "") -> Path:
        config = self.folder / "wicket.toml"
        config.write_text(f"{options}\n{toml_of(servers)}")
        return config

    async def start(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Command:
        """A client's `wicket serve`, which has said nothing yet."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            "-m",
            "wicket_mcp",
            "serve",
            "--config",
            str(self.folder / "wicket.toml"),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environ, **variables},
            cwd=cwd or self.folder,
            limit=2**26,
        )
        command = Command(process)
        self.clients.append(command)
        return command

    async def client(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Command:
        """A client that has shaken hands."""
        command = await self.start(*arguments, cwd=cwd, **variables)
        await command.initialize()
        return command

    async def daemons(self) -> list[dict[str, Any]]:
        return [about for _, about in await asyncio.to_thread(lambda: list(find_daemons(self.runtime)))]

    async def daemon(self) -> dict[str, Any]:
        """The only daemon there is."""
        [found] = await self.daemons()
        return found

    async def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """A verb of the command line: its exit status, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            *("-m", "wicket_mcp", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environ, **variables},
            cwd=self.folder,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def leave(self) -> None:
        for command in self.clients:
            with contextlib.suppress(ProcessLookupError):
                command.process.kill()
        for about in await self.daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(about["pid"], signal.SIGKILL)
        for command in self.clients:
            await command.process.communicate()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncGenerator[Machine]:
    runtime = Path(tempfile.mkdtemp(prefix="wicket-"))  # a socket's path must be short
    here = Machine(tmp_path, runtime)
    try:
        yield here
    finally:
        await here.leave()
        shutil.rmtree(runtime, ignore_errors=True)


async def call(command: Command, name: str, **arguments: Any) -> str:
    """The text that a tool answers."""
    result = await command.call("call_tool", {"name": name, "arguments": arguments})
    return result["content"][0]["text"]
