"""The floor: a forwarder that parses every message, gives it a new id, and does nothing else.

    python floor.py stdio -- COMMAND ARGS…
    python floor.py http PORT -- COMMAND ARGS… | URL

No guard, no validation, no session, no deadline, no cancellation, no record: a bound that no gateway can reach, and
the measure of what a gateway's work costs on top.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import uvicorn
from echo import read_body
from http_hop import Hop

Message = dict[str, Any]
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INFO = {"name": "floor", "version": "1"}
GREETING: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": INFO,
}
LIMIT = 64 * 1024 * 1024

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Upstream(Protocol):
    """Where messages are forwarded to."""

    async def start(self) -> None: ...

    async def call(self, method: str, params: Message) -> Message:
        """The whole response to a request."""
        ...


class Child:
    """An upstream on the pipes of a child process."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._pending: dict[int, Callable[[Message], None]] = {}
        self._number = 0

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, limit=LIMIT)
        assert child.stdin is not None
        assert child.stdout is not None
        self._stdin = child.stdin
        self._pump = asyncio.get_running_loop().create_task(self._read(child.stdout))
        await self.call("initialize", GREETING)
        self._stdin.write(encode({"jsonrpc": "2.0", "method": "notifications/initialized"}) + b"\n")

    def send(self, method: str, params: Message, then: Callable[[Message], None]) -> None:
        self._number += 1
        self._pending[self._number] = then
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._stdin.write(encode(request) + b"\n")

    async def call(self, method: str, params: Message) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.send(method, params, answer.set_result)
        return await answer

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        while line := await stdout.readline():
            message: Any = decode(line)
            self._pending.pop(message["id"])(message)


class Remote:
    """An upstream over HTTP."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._hop = Hop(parts.hostname or "", parts.port or 80)
        self._path = parts.path
        self._number = 0

    async def start(self) -> None:
        await self.call("initialize", GREETING)

    async def call(self, method: str, params: Message) -> Message:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        reply = await self._hop.post(self._path, HEADERS, encode(request))
        message: Any = decode(reply.body)
        return message


def greeting(request: Message) -> bytes:
    version = request["params"].get("protocolVersion")
    result: Message = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
    return encode({"jsonrpc": "2.0", "id": request["id"], "result": result})


async def serve_stdio(upstream: Child) -> None:
    await upstream.start()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    sink, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)

    def forward(request: Message) -> None:
        def back(response: Message) -> None:
            response["id"] = request["id"]
            sink.write(encode(response) + b"\n")

        upstream.send(request["method"], request["params"], back)

    while line := await reader.readline():
        request: Any = decode(line)
        if request["method"] == "initialize":
            sink.write(greeting(request) + b"\n")
        elif "id" in request:
            forward(request)


def serve_http(upstream: Upstream, port: int) -> None:
    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await upstream.start()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        request: Any = decode(await read_body(receive))
        status, body = 200, b""
        if "id" not in request:
            status = 202
        elif request["method"] == "initialize":
            body = greeting(request)
        else:
            body = encode(await upstream.call(request["method"], request["params"]) | {"id": request["id"]})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_keep_alive=600)


def main() -> None:
    split = sys.argv.index("--")
    front, behind = sys.argv[1:split], sys.argv[split + 1 :]
    if front[0] == "stdio":
        asyncio.run(serve_stdio(Child(behind)))
    else:
        serve_http(Remote(behind[0]) if behind[0].startswith("http") else Child(behind), int(front[1]))


if __name__ == "__main__":
    main()
