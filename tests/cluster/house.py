"""Replicas as people run them: real processes over one PostgreSQL, behind HAProxy, on this machine."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.conftest import ROOT, Server
from tests.gateway.serving import TOKEN, toml_of
from tests.peers.haproxy import haproxy
from tests.peers.namespace import Namespace
from tests.peers.ports import free_port

VAULT_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@dataclass
class Replica:
    """One of them."""

    number: int
    port: int
    folder: Path
    config: Path
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    """What its command is started with: another machine, say."""
    process: Process | None = None
    started_at: int = 0
    """How long its log was when it started."""

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / f"log-{self.number}").read_text()

    async def start(self) -> None:
        environment = {
            **os.environ,
            "WICKET_VAULT_KEY": VAULT_KEY,
            "WICKET_LOG": "info",
            "XDG_STATE_HOME": str(self.folder / f"state-{self.number}"),
            **self.variables,
        }
        state = self.folder / f"state-{self.number}" / "wicket"
        state.mkdir(parents=True, exist_ok=True)
        (state / "token").write_text(TOKEN)
        command = ("-m", "wicket_mcp", "serve", "--config", str(self.config), "--http", f"{self.host}:{self.port}")
        with (self.folder / f"log-{self.number}").open("ab") as log:
            self.started_at = len(self.log)
            self.process = await create_subprocess_exec(
                *self.prefix,
                sys.executable,
                *command,
                *self.arguments,
                cwd=ROOT,
                env=environment,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
            )
        await self.ready()

    async def ready(self) -> None:
        """Return when it takes calls."""
        async with asyncio.timeout(90), aiohttp.ClientSession() as session:
            while True:
                assert self.process is None or self.process.returncode is None, self.log
                if self.process is not None and "wicket: serving" not in self.log[self.started_at :]:
                    await asyncio.sleep(0.05)  # who answers there may be another one
                    continue
                try:
                    async with session.get(f"{self.address}/readyz") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)

    def freeze(self) -> None:
        """Stop its process where it stands. Its connections stay open, and the kernel accepts more for it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to leave; how it ended."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.terminate()
            self.thaw()
        return await self.process.wait()


@dataclass
class House:
    """All of them."""

    address: str
    """Where HAProxy stands for any of them."""
    replicas: list[Replica]


@asynccontextmanager
async def replicas(
    folder: Path,
    store: str,
    servers: dict[str, Server],
    *arguments: str,
    count: int = 3,
    options: str = "",
    machine: Namespace | None = None,
    check: str = "20s",
    **variables: str,
) -> AsyncGenerator[House]:
    """`options` are lines of the configuration, `variables` the replicas' environment. The first replica runs on
    `machine`, where there is one. The balancer's checks wait for `check`.
    """
    config = folder / "wicket.toml"
    config.write_text(f'store = "{store}"\n{options}\n{toml_of(servers)}')
    all_of_them = [Replica(n, free_port(), folder, config, arguments, variables) for n in range(count)]
    if machine is not None:
        for replica in all_of_them:
            replica.host = machine.outside
        all_of_them[0].host, all_of_them[0].prefix = machine.inside, machine.prefix
    try:
        await asyncio.gather(*(replica.start() for replica in all_of_them))
        async with haproxy(folder, [f"{replica.host}:{replica.port}" for replica in all_of_them], check) as address:
            yield House(address, all_of_them)
    finally:
        await asyncio.gather(*(replica.stop() for replica in all_of_them if replica.process is not None))
