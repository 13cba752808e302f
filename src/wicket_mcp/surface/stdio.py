"""Serving one client over our own stdin and stdout.

stdout carries the protocol and nothing else: the pipes are moved to private descriptors first, so that accidental
prints go to stderr. Requests run concurrently; when the client reads slowly we stop reading too, and while a large
message is decoded the next ones wait. After the client
closes its end, calls in flight are finished and answered before we exit; if it then also tells us to stop, they are
cancelled.
"""

import asyncio
import contextlib
import os
import stat
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from wicket_mcp.budget import MAX_VALUES
from wicket_mcp.codec import LARGE, decode, encode, weighs_over
from wicket_mcp.errors import INVALID_REQUEST, PARSE_ERROR, Overloaded
from wicket_mcp.framing import LineFramer, LineTooLong, read_by_pipefuls
from wicket_mcp.large_json import decode_off_loop, encode_off_loop
from wicket_mcp.model import LOCAL, META_VERSION, JsonObject, Principal, as_object
from wicket_mcp.surface.caller import LegacyClient
from wicket_mcp.surface.feed import Changes
from wicket_mcp.surface.notifications import concerns_server, pass_on
from wicket_mcp.surface.outbox import Counters, Outbox, StallWatch
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request, error_response, is_modern, modern_caller, read_message
from wicket_mcp.tasks import Tasks

MAX_MESSAGE = 4 * 1024 * 1024
MAX_RUNNING = 2000
"""The client's requests that may run at once."""
DRAIN = 30.0
SESSION = "stdio"  # one process, one client
_IN_USE = "A request with this id is at work. Give each request an id of its own."
_BUSY = f"{MAX_RUNNING} requests of this client are at work."
FLUSH = 5.0  # seconds for a slow reader to read our last messages


async def serve_stdio(
    protocol: Protocol, stop: asyncio.Event, principal: Principal = LOCAL, counters: Counters | None = None
) -> None:
    """Serve `principal` until the client closes stdin or `stop` is set."""
    source, sink = _claim_wire()
    client = StdioClient(protocol, principal, counters)
    await client.open(source, sink)
    try:
        await _either(client.finished, stop)
        protocol.closing.set()
        await client.drain(DRAIN, stop)
    finally:
        await client.close()


class StdioClient(asyncio.Protocol):
    """The client at the other end of the pipes."""

    def __init__(
        self,
        protocol: Protocol,
        principal: Principal = LOCAL,
        counters: Counters | None = None,
        session: str = SESSION,
        id_prefix: str = "wicket-",
    ) -> None:
        """`id_prefix` is the prefix of our request ids to the client."""
        self.principal = principal
        self.session = session
        self.finished = asyncio.Event()
        self._protocol = protocol
        self._framer = LineFramer(MAX_MESSAGE)
        self._skipping = False
        """Whether the rest of an overlong line is being skipped."""
        self._tasks = Tasks()
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._passing = 0
        """Notifications that are being forwarded to servers."""
        self._source: asyncio.ReadTransport | None = None
        self._sink: asyncio.WriteTransport | _FileSink | None = None
        self._outbox = Outbox(_line, counters=counters)
        self._stall: StallWatch | None = None
        self._paused = False
        """Whether the client reads more slowly than we write."""
        self._waiting: deque[bytes] = deque()
        """Lines that wait for a large message before them; reading is paused meanwhile."""
        self._decoding = False
        self._flushing = False
        self._flushed = asyncio.Event()
        self._unsubscribe = protocol.feed.subscribe(self._notify_changes)
        self._legacy = LegacyClient(self._send, id_prefix=id_prefix)
        self._greeted = False

    async def open(self, source: int, sink: int) -> None:
        loop = asyncio.get_running_loop()
        if _can_be_awaited(sink):
            self._sink, _ = await loop.connect_write_pipe(lambda: _Sink(self), os.fdopen(sink, "wb", 0))
            self._stall = StallWatch(self._sink, lambda: self._outbox.full)
        else:
            self._sink = _FileSink(sink)
            self._flushed.set()
        if _can_be_awaited(source):
            self._source, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(source, "rb", 0, closefd=False))
            read_by_pipefuls(self._source)
        else:
            threading.Thread(target=self._read_file, args=(source, loop), daemon=True).start()

    def data_received(self, data: bytes) -> None:
        if self._skipping:
            _, newline, data = data.partition(b"\n")
            self._skipping = not newline
        try:
            lines = [] if self._skipping else self._framer.feed(data)
        except LineTooLong:
            self._send_parse_error(f"A message may have {MAX_MESSAGE} bytes at most.")
            self._framer = LineFramer(MAX_MESSAGE)
            self._skipping = True
            self.data_received(data)
            return
        if self._decoding:
            self._waiting.extend(lines)
        else:
            self._take_each(lines)

    def eof_received(self) -> bool:
        self.finished.set()
        return True  # answer the calls in flight before closing the connection

    def connection_lost(self, exc: Exception | None) -> None:
        self.finished.set()

    def set_paused(self, paused: bool) -> None:
        """Stop reading from a client that reads slowly, until it has caught up."""
        self._paused = paused
        self._set_reading()
        if self._stall is not None:
            self._stall.pause() if paused else self._stall.resume()
        if not paused:
            self._flush()

    def on_vanished(self) -> None:
        """The client no longer reads our answers: cancel its running calls."""
        if self._stall is not None:
            self._stall.resume()
        self._flushed.set()
        self.finished.set()
        for task in self._running.values():
            task.cancel()

    async def drain(self, timeout: float, stop: asyncio.Event) -> None:
        """Wait for the calls in flight, unless the client has closed its end and we are also told to stop."""
        tasks = Tasks()
        idle = tasks.start(self._tasks.wait(timeout), "drain")
        ended = tasks.start(_both(self.finished, stop), "both ends closed")
        await asyncio.wait({idle, ended}, return_when=asyncio.FIRST_COMPLETED)
        await tasks.close()

    async def close(self) -> None:
        self._unsubscribe()
        self._legacy.leave()
        await self._tasks.close()
        self._paused = False
        self._flush()
        for transport in (self._source, self._sink):
            if transport is not None:
                transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH):
                await self._flushed.wait()

    def _set_reading(self) -> None:
        if self._source is not None and not self._source.is_closing():
            if self._paused or self._decoding:
                self._source.pause_reading()
            else:
                self._source.resume_reading()

    def _take_each(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._decoding:
                self._waiting.append(line)
            elif len(line) >= LARGE:
                self._decoding = True
                self._set_reading()
                self._tasks.start(self._take_large(line), "read a large message")
            elif line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            message: Any = decode(line, strict=True)
        except ValueError as problem:
            self._send_parse_error(f"Not JSON: {problem}")
        else:
            self._handle(message)

    async def _take_large(self, line: bytes) -> None:
        try:
            message: Any = await decode_off_loop(line, strict=True, most=MAX_VALUES)
        except ValueError as problem:
            self._send_parse_error(f"Not JSON: {problem}")
        else:
            self._handle(message)
        self._decoding = False
        waiting, self._waiting = self._waiting, deque()
        self._take_each(waiting)
        self._set_reading()

    def _send_parse_error(self, text: str) -> None:
        self._send(error_response(None, RpcProblem(PARSE_ERROR, text)))

    def _handle(self, message: Any) -> None:
        try:
            body = read_message(message)
            if "method" not in body:
                self._legacy.questions.receive(body)
                return
            if "id" not in body:
                self._take_notification(body)
                return
            request = self._request(body, modern=is_modern(body))
        except RpcProblem as problem:
            number = as_object(message).get("id")
            self._send(error_response(number, problem))
            return
        if request.id in self._running:
            self._send(error_response(request.id, RpcProblem(INVALID_REQUEST, _IN_USE)))
            return
        if len(self._running) >= MAX_RUNNING:
            self._send(error_response(request.id, Overloaded(_BUSY, hint="Try again when some have been answered.")))
            return
        self._greeted = self._greeted or not request.modern
        self._running[request.id] = self._tasks.start(self._serve(request), request.method)

    def _request(self, body: JsonObject, *, modern: bool) -> Request:
        params: JsonObject = body.get("params", {})
        if modern:
            caller = modern_caller(self.principal, self.session, self._send, as_object(params["_meta"]))
        else:
            caller = self._legacy.caller(self.principal, self.session, self._send)
        self._protocol.settle_profile(caller, params)
        return Request(body["id"], body["method"], params, caller, modern, None if modern else self._legacy)

    async def _serve(self, request: Request) -> None:
        try:
            response = await self._protocol.respond(request)
            if weighs_over(response):
                self._outbox.put_packed(await encode_off_loop(response) + b"\n")
                self._flush()
            else:
                self._send(response)
        finally:
            self._running.pop(request.id, None)

    def _take_notification(self, body: JsonObject) -> None:
        if body["method"] == "notifications/cancelled":
            number: Any = body.get("params", {}).get("requestId")
            task = self._running.get(number) if isinstance(number, str | int) else None
            if task is not None:
                task.cancel()
        elif concerns_server(body["method"]) and self._passing < MAX_RUNNING:
            self._passing += 1
            self._tasks.start(self._pass_on(body), "notification")

    async def _pass_on(self, body: JsonObject) -> None:
        try:
            meta: Any = body.get("params", {}).get("_meta")
            modern = isinstance(meta, dict) and META_VERSION in meta
            caller = (
                modern_caller(self.principal, self.session, self._send, as_object(meta))
                if modern
                else self._legacy.caller(self.principal, self.session, self._send)
            )
            self._protocol.settle_profile(caller, {})
            await pass_on(self._protocol, body, caller)
        finally:
            self._passing -= 1

    def _notify_changes(self, changes: Changes) -> None:
        if self._greeted:
            self._legacy.list_changed(self._protocol.changed_lists(changes, self.principal))
            caller = self._legacy.caller(self.principal, self.session, self._send)
            self._legacy.announce(self._protocol.announcement(changes, caller))

    def _send(self, message: JsonObject) -> None:
        self._outbox.put(message)
        if len(self._running) <= 1:
            self._flush()
        elif not self._flushing:  # more answers may be ready in this turn: one system call for all
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._paused or self._sink is None:
            return
        unsent = self._outbox.take()
        if unsent and not self._sink.is_closing():
            self._sink.write(unsent)

    def _read_file(self, source: int, loop: asyncio.AbstractEventLoop) -> None:
        while chunk := os.read(source, 65536):
            loop.call_soon_threadsafe(self.data_received, chunk)
        loop.call_soon_threadsafe(self.finished.set)


class DuplexClient(StdioClient):
    """A client whose two directions are one connection; lines are as over the pipes."""

    def attach(self, transport: asyncio.Transport) -> None:
        """Serve over this connection from now on."""
        self._source = self._sink = transport
        self._stall = StallWatch(transport, lambda: self._outbox.full)

    def pause_writing(self) -> None:
        self.set_paused(True)

    def resume_writing(self) -> None:
        self.set_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_vanished()


class _Sink(asyncio.Protocol):
    """The writing half: forwards three events of its transport."""

    def __init__(self, client: StdioClient) -> None:
        self._client = client

    def pause_writing(self) -> None:
        self._client.set_paused(True)

    def resume_writing(self) -> None:
        self._client.set_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.on_vanished()


class _FileSink:
    """stdout redirected to a file or a device: written directly."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._closed = False

    def write(self, data: bytes) -> None:
        unwritten = memoryview(data)
        while unwritten:  # a signal or a full device may cut a write short
            unwritten = unwritten[os.write(self._fd, unwritten) :]

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        os.close(self._fd)


def _line(message: JsonObject) -> bytes:
    return encode(message) + b"\n"


def _can_be_awaited(descriptor: int) -> bool:
    """Whether the descriptor can be polled. Files, and devices such as /dev/null, cannot: a thread reads them."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _claim_wire() -> tuple[int, int]:
    """Private copies of stdin and stdout; the public ones then point to /dev/null and stderr."""
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return source, sink


async def _both(first: asyncio.Event, second: asyncio.Event) -> None:
    await first.wait()
    await second.wait()


async def _either(first: asyncio.Event, second: asyncio.Event) -> None:
    tasks = Tasks()
    waits = {tasks.start(first.wait(), "finished"), tasks.start(second.wait(), "stop")}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await tasks.close()
