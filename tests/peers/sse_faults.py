"""Servers of the older HTTP+SSE transport: a good one, and one small class for each fault."""

import asyncio

from tests.peers.http_faults import EVENTS, HttpPeer, Received, event, head, send


class SsePeer(HttpPeer):
    """Answers every request with {"ok": true} on the stream."""

    mailbox = "/messages?session=1"

    def __init__(self) -> None:
        super().__init__()
        self.stream: asyncio.StreamWriter | None = None

    @property
    def url(self) -> str:
        return f"{self.origin}/sse"

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.verb == "GET":
            head(writer, 200, EVENTS)
            self.stream = writer
            await self.begin(writer)
            await asyncio.Event().wait()
        else:
            send(writer, 202, "text/plain", b"Accepted")
            assert self.stream
            await self.react(request, self.stream)

    async def begin(self, stream: asyncio.StreamWriter) -> None:
        stream.write(b"event: endpoint\ndata: " + self.mailbox.encode() + b"\n\n")

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        if "id" in request.body:
            stream.write(event(request.answered()))


class MailboxElsewhere(SsePeer):
    mailbox = "http://127.0.0.1:1/messages"


class EndsBeforeMailbox(SsePeer):
    async def begin(self, stream: asyncio.StreamWriter) -> None:
        stream.close()


class EndsMidCall(SsePeer):
    """Takes the request, then ends the stream."""

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        stream.close()


class MailboxFull(SsePeer):
    """Offers a stream and refuses what is posted."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.verb == "POST":
            send(writer, 413, "text/plain", b"too much")
        else:
            await super().answer(request, writer)


class Babbles(SsePeer):
    """Strays of every kind around each answer: wrong ids, no JSON, two answers, unknown events."""

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        for stray in (
            b"hello",
            b"[]",
            b"[1]",
            b'{"id": 99, "result": {}}',
            b'{"id": [], "result": {}}',
            b'{"method": 1}',
        ):
            stream.write(event(stray))
        stream.write(b"event: endpoint\ndata: http://127.0.0.1:1/late\n\nevent: ping\ndata: {}\n\n: comment\n\n")
        await super().react(request, stream)
        await super().react(request, stream)


class EndlessEvent(SsePeer):
    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        stream.write(b"data: ")
        while not stream.is_closing():
            stream.write(b"x" * 65536)
            await stream.drain()


class AnswersWithout(SsePeer):
    """An answer that holds neither result nor error."""

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        stream.write(event(b'{"jsonrpc": "2.0", "id": %d}' % request.body["id"]))


class AnswersTooDeeply(SsePeer):
    """An answer that nobody can read, on a stream that stays open."""

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        stream.write(event(request.answered({"x": "@"}).replace(b'"@"', b"[" * 500 + b"]" * 500)))


class NeverAnswers(SsePeer):
    """Posts are taken and nothing comes of them; `told` is set by a cancellation."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.told = asyncio.Event(), asyncio.Event()

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        (self.told if request.rpc_method == "notifications/cancelled" else self.asked).set()


class Floods(SsePeer):
    """Talks without end as soon as it is spoken to."""

    async def react(self, request: Received, stream: asyncio.StreamWriter) -> None:
        while True:
            stream.write(event(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}') * 200)
            await stream.drain()
