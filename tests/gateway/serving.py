"""Serving in tests: over HTTP inside the test's own loop, or as the installed command."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import aiohttp

from tests.conftest import Server
from wicket_mcp.app import Gateway
from wicket_mcp.model import META_CLIENT_INFO, as_object
from wicket_mcp.tasks import Tasks

TOKEN = "a-token-for-tests-only"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def serve_http(
    gateway: Gateway, *dialects: str, token: str | None = TOKEN, metrics: tuple[str, int] | None = None
) -> AsyncGenerator[str]:
    """The address of `gateway`, served over HTTP on a free loopback port."""
    stop = asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    tasks = Tasks()
    work = gateway.serve_http(stop, *dialects, token=token, on_ready=address.set_result, metrics=metrics)
    serving = tasks.start(work, "serve")
    await asyncio.wait({serving, address}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    try:
        yield address.result()
    finally:
        stop.set()
        await serving


@dataclass
class Raw:
    """A bare HTTP client that says exactly what it is told to."""

    session: aiohttp.ClientSession
    address: str

    async def post(
        self, body: Any, headers: Mapping[str, str] | None = None, *, token: str | None = TOKEN
    ) -> tuple[int, Mapping[str, str], Any]:
        sent = {**ACCEPT, **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(
            self.address, data=data, headers={"Content-Type": "application/json", **sent}
        ) as answer:
            content = await answer.read()
            return answer.status, answer.headers, _parsed(content, answer.content_type)

    async def modern(
        self, method: str, params: dict[str, Any] | None = None, *, client: str = "", **headers: str
    ) -> tuple[int, Any]:
        """A well-formed modern request; of a client that calls itself `client`."""
        named = {META_CLIENT_INFO: {"name": client, "version": "1"}} if client else {}
        given: dict[str, Any] = {**(params or {}), "_meta": META | named}
        routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in given:
            routing["Mcp-Name"] = given["name"]
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
        status, _, body = await self.post(message, {**routing, **headers})
        return status, body


def _parsed(content: bytes, kind: str) -> Any:
    if kind == "text/event-stream":
        events = content.decode().split("\n\n")
        return [json.loads(event.partition("data: ")[2]) for event in events if "data: " in event]
    return json.loads(content) if content else None


@asynccontextmanager
async def raw_client(address: str) -> AsyncGenerator[Raw]:
    async with aiohttp.ClientSession() as session:
        yield Raw(session, address)


def toml_of(servers: dict[str, Server]) -> str:
    """A wicket.toml with these servers."""
    return "\n".join(_toml(name, server) for name, server in servers.items())


def _toml(name: str, server: Server) -> str:
    """A server's table: TOML writes strings, numbers and lists as JSON does."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in server.items() if not isinstance(value, dict)]
    tables = [
        f"[servers.{name}.{key}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in as_object(value).items())
        for key, value in server.items()
        if isinstance(value, dict)
    ]
    return "\n".join([f"[servers.{name}]", *plain, *tables])


class Command:
    """`wicket serve` as a child process, spoken to line by line."""

    started: ClassVar[list["Command"]] = []
    """What a test started; its fixture kills what a failed test left running."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._number = 0

    @classmethod
    async def start(cls, folder: Path, servers: dict[str, Server], *arguments: str, option: str = "") -> "Command":
        config = folder / "wicket.toml"
        config.write_text(f"{option}\n{toml_of(servers)}")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "wicket_mcp",
            "serve",
            "--config",
            str(config),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "WICKET_LOG": "info"},
            limit=2**26,
        )
        command = cls(process)
        cls.started.append(command)
        return command

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")

    async def receive(self) -> Any:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "the gateway closed its output"
        return json.loads(line)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its response, passing over notifications."""
        self._number += 1
        number = self._number
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        while True:
            message = await self.receive()
            if message.get("id") == number:
                return message

    async def initialize(self) -> Any:
        client = {"name": "test", "version": "1"}
        answer = await self.ask(
            "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        answer = await self.ask("tools/call", {"name": name, "arguments": arguments or {}})
        return answer["result"]

    async def finish(self) -> int:
        """Close its input and wait for its end; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode
