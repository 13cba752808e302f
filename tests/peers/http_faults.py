"""HTTP peers that misbehave, one small class for each fault, on real sockets.

`HttpPeer` reads requests and keeps them in `received`; a subclass says what to write back. A peer closes the
connection after its answer unless `answer` says otherwise.
"""

import asyncio
import gzip
import socket
import ssl
import struct
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from wicket_mcp.codec import decode, encode

JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    verb: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def rpc_method(self) -> str:
        return self.body.get("method", "") if self.body else ""

    def answered(self, result: dict[str, Any] | None = None) -> bytes:
        return encode({"jsonrpc": "2.0", "id": self.body["id"], "result": result or {"ok": True}})


class HttpPeer:
    """Answers every request with the result {"ok": true}, and notifications with 202."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._tls = tls
        self._host = host
        self.received: list[Received] = []
        self.hung_up = asyncio.Event()
        """Set when a client leaves before its answer is complete."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def origin(self) -> str:
        assert self._server
        return f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if "id" in request.body and "method" in request.body:
            send(writer, 200, JSON, request.answered())
        else:
            send(writer, 202, "", b"")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            request = await _read(reader)
            self.received.append(request)
            answering = asyncio.get_running_loop().create_task(self.answer(request, writer))
            leaving = asyncio.get_running_loop().create_task(reader.read(1))
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                self.hung_up.set()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    verb, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(verb, path, headers, decode(body) if body else {})


def head(writer: asyncio.StreamWriter, status: int, media_type: str, **headers: str) -> None:
    """Write the head of an answer whose body ends with the connection, unless a length is given."""
    lines = [f"HTTP/1.1 {status} Whatever", "Connection: close"]
    lines += [f"Content-Type: {media_type}"] if media_type else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def send(writer: asyncio.StreamWriter, status: int, media_type: str, body: bytes, **headers: str) -> None:
    head(writer, status, media_type, Content_Length=str(len(body)), **headers)
    writer.write(body)


def event(data: bytes) -> bytes:
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"


class Says(HttpPeer):
    """Answers everything with one fixed status, type and body."""

    def __init__(self, status: int, media_type: str, body: bytes, **headers: str) -> None:
        super().__init__()
        self._said = status, media_type, body, headers

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        status, media_type, body, headers = self._said
        send(writer, status, media_type, body, **headers)


class Streams(HttpPeer):
    """Answers requests with a stream of events, each {id} replaced by the request's id."""

    def __init__(self, stream: bytes) -> None:
        super().__init__()
        self._stream = stream

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, EVENTS)
        writer.write(self._stream.replace(b"{id}", str(request.body["id"]).encode()))


class StreamsOn(Streams):
    """Never ends its stream."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        await super().answer(request, writer)
        await asyncio.Event().wait()


class GzipBomb(HttpPeer):
    """Half a megabyte that unfolds to a hundred."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        packer = zlib.compressobj(1, wbits=31)
        block = b" " * 2**20
        bomb = b"".join([*(packer.compress(block) for _ in range(100)), packer.flush()])
        send(writer, 200, JSON, bomb, Content_Encoding="gzip")


class GzipBombOfEvents(HttpPeer):
    """A compressed stream that unfolds to one line without end."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        packer = zlib.compressobj(1, wbits=31)
        block = b"x" * 2**20
        bomb = b"".join([packer.compress(b"data: "), *(packer.compress(block) for _ in range(100)), packer.flush()])
        send(writer, 200, EVENTS, bomb, Content_Encoding="gzip")


class Compresses(HttpPeer):
    """A well-behaved peer that compresses with what was offered, or with `encoding`."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        plain = request.answered({"text": "x" * 300_000})
        packed = {"gzip": gzip.compress, "deflate": zlib.compress, "raw deflate": _raw_deflate}[self._encoding](plain)
        send(writer, 200, JSON, packed, Content_Encoding=self._encoding.removeprefix("raw "))


class TruncatedGzip(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 200, JSON, gzip.compress(request.answered())[:-9], Content_Encoding="gzip")


def _raw_deflate(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(plain) + packer.flush()


class ResetsAfterHeaders(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, JSON, Content_Length="100")
        await writer.drain()
        reset(writer)


class ResetsBeforeAnswer(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        reset(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the peer gets a reset instead of an end."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class CutShort(HttpPeer):
    """Promises more bytes than come before the connection ends."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, JSON, Content_Length="1000")
        writer.write(request.answered())


class TruncatedJson(HttpPeer):
    """An answer complete for HTTP, but cut off as JSON."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 200, JSON, request.answered()[:-5])


class InvalidUtf8(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 200, JSON, request.answered({"text": "caf?"}).replace(b"caf?", b"caf\xe9"))


class WrongId(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 200, JSON, encode({"jsonrpc": "2.0", "id": request.body["id"] + 1, "result": {}}))


class FiveGigabytes(HttpPeer):
    """Announces a body that nobody could take in, and waits."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, JSON, Content_Length=str(5 * 10**9))
        await asyncio.Event().wait()


class EndlessBody(HttpPeer):
    """JSON without end, and without saying so."""

    media_type = JSON
    beginning = b'{"jsonrpc": "'

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, self.media_type)
        writer.write(self.beginning)
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()


class EndlessEvent(EndlessBody):
    media_type = EVENTS
    beginning = b"data: "


class Silent(HttpPeer):
    """Begins an answer and never goes on."""

    def __init__(self, media_type: str) -> None:
        super().__init__()
        self._media_type = media_type
        self.asked = asyncio.Event()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method.startswith("notifications/"):
            await super().answer(request, writer)
        else:
            head(writer, 200, self._media_type)
            await writer.drain()
            self.asked.set()
            await asyncio.Event().wait()


class Redirects(HttpPeer):
    """Redirects whatever is not at `right_path`."""

    def __init__(self, status: int, location: str, right_path: str = "") -> None:
        super().__init__()
        self._status, self._location, self._right_path = status, location, right_path

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.path == self._right_path:
            await super().answer(request, writer)
        else:
            send(writer, self._status, "", b"", Location=self._location)


class EchoesCredentials(HttpPeer):
    """Turns everybody away and repeats their token and address, as some error pages do."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        body = f"no entry for {request.headers.get('authorization')} at {request.path}\x1b[31m\x00"
        send(writer, 400, "text/plain", body.encode())


class ExpiringSession(HttpPeer):
    """Gives out a session and forgets it at once."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__()
        self._refusal = status, body

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "initialize":
            send(writer, 200, JSON, request.answered(), Mcp_Session_Id="one")
        else:
            send(writer, self._refusal[0], JSON, self._refusal[1])


class KeepsSession(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "initialize":
            send(writer, 200, JSON, request.answered(), Mcp_Session_Id="one")
        else:
            await super().answer(request, writer)


class AsksBack(HttpPeer):
    """Asks something before it answers; a reply, or the next request, releases the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._replied = asyncio.Event()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method != "tools/call":
            await super().answer(request, writer)
            self._replied.set()
            return
        head(writer, 200, EVENTS)
        writer.write(event(b'{"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}}'))
        writer.write(event(b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}'))
        await writer.drain()
        await self._replied.wait()
        writer.write(event(request.answered()))


class BreaksOff(HttpPeer):
    """A legacy stream that ends early and gives the result when it is asked to resume."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, EVENTS)
        if request.verb == "POST":
            writer.write(b"id: first\nretry: 1\ndata:\n\n")
        elif request.headers.get("last-event-id") == "first":
            writer.write(event(self.received[0].answered()))


class Gossips(HttpPeer):
    """Speaks unasked: on each GET, or each subscription, one notification; then the stream ends."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        subscribed = request.rpc_method == "subscriptions/listen"
        number = len(self.received)
        meta = {"io.modelcontextprotocol/subscriptionId": request.body["id"]} if subscribed else {}
        params = {"_meta": meta, "number": number}
        head(writer, 200, EVENTS)
        writer.write(b"retry: 1\nid: %d\n" % number)
        writer.write(event(b'{"jsonrpc": "2.0", "method": "notifications/unrelated", "params": [1]}') * subscribed)
        notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params}
        writer.write(event(encode(notice)))


class NotHttp(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")


class NoTls(HttpPeer):
    """Answers in plain text to whatever comes first, as a web server does that is greeted in TLS."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        send(writer, 400, "text/plain", b"speak plainly")
        writer.close()


class Floods(HttpPeer):
    """Opens every stream that is asked for, and talks on it without end; offers a session to make it easy."""

    def __init__(self, chatter: bytes = b"") -> None:
        super().__init__()
        message = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
        self._chatter = chatter or event(message)

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        head(writer, 200, EVENTS)
        while True:
            writer.write(self._chatter * 200)
            await writer.drain()
