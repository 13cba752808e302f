"""One light client for every contender: JSON-RPC as it goes over the wire, nothing validated, both eras.

A client knows its transport and its era. What it asks for, how often and how long it took is the caller's business.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from peers.http_hop import Hop, HopLost
from wicket_mcp.codec import decode, encode
from wicket_mcp.framing import LineFramer
from wicket_mcp.model import (
    LATEST_LEGACY_VERSION,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    MODERN_VERSION,
    JsonObject,
)

INFO: JsonObject = {"name": "bench", "version": "1"}
HELLO: JsonObject = {"protocolVersion": LATEST_LEGACY_VERSION, "capabilities": {}, "clientInfo": INFO}
META: JsonObject = {META_VERSION: MODERN_VERSION, META_CLIENT_INFO: INFO, META_CAPABILITIES: {}}
START_LIMIT = 90.0
LONGEST_LINE = 64 * 1024 * 1024


class BenchError(Exception):
    """A contender that did not do what was asked of it."""


class Client(Protocol):
    """Somebody who can ask a contender."""

    async def start(self) -> None:
        """Connect and greet; returns when the greeting is answered."""
        ...

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """The result. Raises BenchError when there is none."""
        ...

    def rest(self) -> None:
        """Nothing will be asked for a while: keep no connection that the contender might close meanwhile."""
        ...

    async def stop(self) -> None: ...


@dataclass
class Program:
    """A command to run in a process group of its own; what it says goes to a log file."""

    command: Sequence[str]
    log: Path
    pid: int = 0
    _process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid

    def check(self) -> None:
        """Raises BenchError when it has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise BenchError(f"it ended with {self._process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    async def stop(self) -> None:
        if self._process is not None:
            await _end(self._process.pid, self._process.wait())


class HttpClient:
    """Streamable HTTP. Several clients may speak to one program."""

    def __init__(self, port: int, path: str = "/mcp", *, modern: bool = False, token_file: Path | None = None) -> None:
        self.program: Program | None = None
        """Whom we speak to, to see when it is not there any more."""
        self._hop = Hop("127.0.0.1", port)
        self._path = path
        self._modern = modern
        self._token_file = token_file
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._number = 0

    async def start(self) -> None:
        end = time.monotonic() + START_LIMIT
        while True:
            try:
                await self._greet()
            except (OSError, HopLost):  # not listening yet
                if self.program is not None:
                    self.program.check()
                if time.monotonic() > end:
                    raise BenchError(f"nobody listens after {START_LIMIT:.0f} s") from None
                await asyncio.sleep(0.1)
            else:
                return

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self._number += 1
        headers = self._headers
        if self._modern:
            headers = headers | {"Mcp-Method": method}
            if name := params.get("name", params.get("uri")):
                headers["Mcp-Name"] = name
            params = {**params, "_meta": META}
        body = encode({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        reply = await self._hop.post(self._path, headers, body)
        if b"mcp-session-id" in reply.headers:
            self._headers["Mcp-Session-Id"] = reply.headers[b"mcp-session-id"].decode()
        if reply.headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            return _result(_last_event(reply.body))
        if reply.status != 200:
            raise BenchError(f"HTTP {reply.status}: {reply.body[:200]!r}")
        return _result(decode(reply.body))

    def rest(self) -> None:
        self._hop.close()

    async def stop(self) -> None:
        self._hop.close()

    async def _greet(self) -> None:
        if self._token_file is not None and self._token_file.exists():
            self._headers["Authorization"] = f"Bearer {self._token_file.read_text('utf-8').strip()}"
        if self._modern:
            self._headers["MCP-Protocol-Version"] = MODERN_VERSION
            await self.request("server/discover", {})
            return
        hello = await self.request("initialize", HELLO)
        self._headers["MCP-Protocol-Version"] = hello["protocolVersion"]
        ready = encode({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self._hop.post(self._path, self._headers, ready)


class StdioClient(asyncio.SubprocessProtocol):
    """A contender on the pipes of its own process."""

    def __init__(
        self, command: Sequence[str], log: Path, *, modern: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        self.pid = 0
        self._command = command
        self._log = log
        # A gateway of its own, unless `env` says otherwise: a daemon would outlive what is measured.
        self._env = {**os.environ, "WICKET_NO_DAEMON": "1", **(env or {})}
        self._modern = modern
        self._framer = LineFramer(LONGEST_LINE)
        self._pending: dict[int, asyncio.Future[JsonObject]] = {}
        self._number = 0
        self._stdin: asyncio.WriteTransport | None = None
        self._process: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()

    async def start(self) -> None:
        with self._log.open("ab") as log:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *self._command, stderr=log, start_new_session=True, env=self._env
            )
        async with asyncio.timeout(START_LIMIT):
            if self._modern:
                await self.request("server/discover", {})
            else:
                await self.request("initialize", HELLO)
                self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self._number += 1
        answer = self._pending[self._number] = asyncio.get_running_loop().create_future()
        if self._modern:
            params = {**params, "_meta": META}
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return _result(await answer)

    def rest(self) -> None:
        """Pipes stay open."""

    async def stop(self) -> None:
        if self._process is not None:
            await _end(self.pid, self._exited.wait())
            self._process.close()

    def _write(self, message: JsonObject) -> None:
        assert self._stdin is not None
        self._stdin.write(encode(message) + b"\n")

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        self._stdin = cast("asyncio.WriteTransport", self._process.get_pipe_transport(0))
        self.pid = self._process.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        for line in self._framer.feed(data):
            message: Any = decode(line)
            answer = self._pending.pop(message.get("id", 0), None) if "method" not in message else None
            if answer is not None and not answer.done():
                answer.set_result(message)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._fail()

    def process_exited(self) -> None:
        self._exited.set()
        self._fail()

    def _fail(self) -> None:
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(BenchError(f"the process ended; see {self._log}"))


async def _end(pid: int, exited: Any) -> None:
    """Ask the process group to leave, then insist."""
    try:
        os.killpg(pid, signal.SIGTERM)
        async with asyncio.timeout(5):
            await exited
    except ProcessLookupError:
        exited.close()
    except TimeoutError:
        os.killpg(pid, signal.SIGKILL)


def _result(message: JsonObject) -> JsonObject:
    result: Any = message.get("result")
    if not isinstance(result, dict) or message.get("isError"):
        raise BenchError(str(message)[:300])
    return cast("JsonObject", result)


def _last_event(body: bytes) -> JsonObject:
    """The message in the last event of a stream, which is where the answer stands."""
    line = body.rstrip().rpartition(b"data:")[2].partition(b"\n")[0]
    return decode(line.strip())
