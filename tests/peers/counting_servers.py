"""Servers over HTTP and SSE that count what they execute, each with one way to turn a call away before it runs.

They speak the legacy era with sessions, or the modern one (`InModernEra`); `executed` has the message of every call of
their tool `echo` that ran.
"""

import asyncio
import itertools
from collections import Counter
from typing import Any

from tests.peers.http_faults import EVENTS, JSON, HttpPeer, Received, event, head, send
from wicket_mcp.codec import encode

ECHO = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
}


UNKNOWN: dict[str, Any] = {"com.example/kept": {"deep": [1]}, "_meta": {"com.example/mark": 2}}


class CountingServer(HttpPeer):
    """A healthy one."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(host=host)
        self.executed: list[str] = []
        self.sessions: set[str] = set()
        self._numbers = itertools.count(1)

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        method = request.rpc_method
        if request.verb != "POST":
            send(writer, 405, "", b"")
        elif method == "server/discover":
            send(writer, 404, "", b"")
        elif method == "initialize":
            session = f"session-{next(self._numbers)}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": type(self).__name__, "version": "1"},
            }
            send(writer, 200, JSON, request.answered(result), Mcp_Session_Id=session)
        elif request.headers.get("mcp-session-id") not in self.sessions:
            send(writer, 404, "", b"")
        elif "id" not in request.body:
            send(writer, 202, "", b"")
        elif method == "tools/list":
            send(writer, 200, JSON, request.answered({"tools": [ECHO]}))
        else:
            await self.call(request, writer)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        message = request.body["params"]["arguments"]["message"]
        self.executed.append(message)
        send(writer, 200, JSON, request.answered({"content": [{"type": "text", "text": message}]}))


class InModernEra(CountingServer):
    """Mixed into another: the same in the modern era, which has no sessions."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        method, complete = request.rpc_method, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        known: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if method == "server/discover":
            send(writer, 200, JSON, request.answered({**complete, **known}))
        elif method == "tools/list":
            send(writer, 200, JSON, request.answered({**complete, "tools": [ECHO]}))
        elif method == "tools/call":
            await self.call(request, writer)
        else:
            send(writer, 404, "", b"")


class CountsForSessions(CountingServer):
    """Answers with the number of calls that the session has made, until the session is ended with DELETE."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(host)
        self.calls: Counter[str] = Counter()
        self.ended: list[str] = []
        self._endings: asyncio.Queue[str] = asyncio.Queue()

    async def wait_for_end(self, session: str) -> None:
        async with asyncio.timeout(10):
            while await self._endings.get() != session:
                pass

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.verb == "DELETE":
            session = request.headers["mcp-session-id"]
            self.ended.append(session)
            self._endings.put_nowait(session)
            self.sessions.discard(session)
            send(writer, 200, "", b"")
        else:
            await super().answer(request, writer)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        session = request.headers["mcp-session-id"]
        self.calls[session] += 1
        text = str(self.calls[session])
        send(writer, 200, JSON, request.answered({"content": [{"type": "text", "text": text}]}))


class ForgetsSessions(CountingServer):
    """Forgets every session once a call has run in it, as a server does that restarts behind a load balancer."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        await super().call(request, writer)
        self.sessions.clear()


class SpeaksOfSessions(CountingServer):
    """Runs a call, and answers 400 with an error about a session that is not the protocol's."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.executed.append(request.body["params"]["arguments"]["message"])
        error = {"code": -32000, "message": "db session closed"}
        send(writer, 400, JSON, encode({"jsonrpc": "2.0", "id": request.body["id"], "error": error}))


class KnowsNoSession(CountingServer):
    """Lists its tools in any session and then knows none: calls are never taken."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 404, "", b"")


class GoesDark(CountingServer):
    """Answers nothing at all while it is `dark`."""

    dark = False

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if self.dark:
            await asyncio.Event().wait()
        await super().answer(request, writer)


class AsksToWait(CountingServer):
    """Turns the first `times` calls away, and says when to come back."""

    def __init__(self, status: int, seconds: str, times: int) -> None:
        super().__init__()
        self._status, self._seconds, self._times = status, seconds, times
        self.turned_away = 0

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if self.turned_away < self._times:
            self.turned_away += 1
            send(writer, self._status, "", b"", Retry_After=self._seconds)
            return
        await super().call(request, writer)


class AsksToWaitInModernEra(InModernEra, AsksToWait):
    pass


class AsksNewcomersToWait(CountingServer):
    """Turns the first `times` requests of a method that begins a connection away, and says when to come back."""

    def __init__(self, method: str, status: int, seconds: str, times: int) -> None:
        super().__init__()
        self._method, self._status, self._seconds, self._times = method, status, seconds, times
        self.turned_away = 0

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == self._method and self.turned_away < self._times:
            self.turned_away += 1
            send(writer, self._status, "", b"", Retry_After=self._seconds)
        else:
            await super().answer(request, writer)


class Announces(InModernEra):
    """Declares `com.example/tally`. Who sends it the notification `com.example/poke` is told, over the stream of a
    subscription, what its parameter `say` holds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[tuple[Received, asyncio.StreamWriter]] = []

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        method = request.rpc_method
        if method == "server/discover":
            able: dict[str, Any] = {"extensions": {"com.example/tally": {}}}
            known: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": able}
            send(writer, 200, JSON, request.answered({"resultType": "complete", "ttlMs": 0, **known}))
        elif method == "subscriptions/listen":
            head(writer, 200, EVENTS)
            self.tell(request, writer, "notifications/subscriptions/acknowledged", {"notifications": {}})
            self.listeners.append((request, writer))
            await asyncio.Event().wait()
        elif method == "com.example/poke":
            send(writer, 202, "", b"")
            for listener in self.listeners:
                self.tell(*listener, "notifications/com.example/tick", request.body["params"]["say"])
        else:
            await super().answer(request, writer)

    def tell(self, request: Received, writer: asyncio.StreamWriter, method: str, params: dict[str, Any]) -> None:
        meta = {**params.get("_meta", {}), "io.modelcontextprotocol/subscriptionId": request.body["id"]}
        writer.write(event(encode({"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}})))


class AsksNewcomersToWaitInModernEra(AsksNewcomersToWait, InModernEra):
    pass


class HangsUpInCalls(CountingServer):
    """Runs a call, and closes the connection instead of answering."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.executed.append(request.body["params"]["arguments"]["message"])
        writer.close()


class HangsUpInCallsInModernEra(InModernEra, HangsUpInCalls):
    pass


class HangsUpWhenIdle(CountingServer):
    """Promises to keep the connection of a call open, and closes it when it has answered."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        message = request.body["params"]["arguments"]["message"]
        self.executed.append(message)
        body = request.answered({"content": [{"type": "text", "text": message}]})
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


class HangsUpWhenIdleInModernEra(InModernEra, HangsUpWhenIdle):
    pass


class CountingSse(HttpPeer):
    """The older transport: a healthy one. A mailbox of a session that it does not know answers 404."""

    def __init__(self) -> None:
        super().__init__()
        self.executed: list[str] = []
        self.streams: dict[str, asyncio.StreamWriter] = {}
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return f"{self.origin}/sse"

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.verb == "GET":
            session = f"/messages?session={next(self._numbers)}"
            self.streams[session] = writer
            head(writer, 200, EVENTS)
            writer.write(f"event: endpoint\ndata: {session}\n\n".encode())
            await asyncio.Event().wait()
        elif (stream := self.streams.get(request.path)) is None:
            send(writer, 404, "", b"")
        elif request.rpc_method == "tools/call":
            await self.call(request, writer, stream)
        else:
            send(writer, 202, "", b"")
            if "id" in request.body:
                stream.write(event(self.reply(request)))

    def reply(self, request: Received) -> bytes:
        if request.rpc_method == "tools/list":
            return request.answered({"tools": [ECHO]})
        if request.rpc_method != "initialize":
            return encode({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32601, "message": "unknown"}})
        about = {"name": type(self).__name__, "version": "1"}
        return request.answered({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": about})

    async def call(self, request: Received, writer: asyncio.StreamWriter, stream: asyncio.StreamWriter) -> None:
        message = request.body["params"]["arguments"]["message"]
        self.executed.append(message)
        send(writer, 202, "", b"")
        stream.write(event(request.answered({"content": [{"type": "text", "text": message}]})))


class HangsUpInSseCalls(CountingSse):
    """Runs a call, and closes its stream instead of answering."""

    async def call(self, request: Received, writer: asyncio.StreamWriter, stream: asyncio.StreamWriter) -> None:
        self.executed.append(request.body["params"]["arguments"]["message"])
        send(writer, 202, "", b"")
        stream.close()


class ForgetsSseSessions(CountingSse):
    """Forgets every session once a call has run in it, and leaves its stream open."""

    async def call(self, request: Received, writer: asyncio.StreamWriter, stream: asyncio.StreamWriter) -> None:
        await super().call(request, writer, stream)
        self.streams.clear()


class AsksToWaitOverSse(CountingSse):
    """Turns the first `times` calls away, and says when to come back."""

    def __init__(self, status: int, seconds: str, times: int) -> None:
        super().__init__()
        self._status, self._seconds, self._times = status, seconds, times
        self.turned_away = 0

    async def call(self, request: Received, writer: asyncio.StreamWriter, stream: asyncio.StreamWriter) -> None:
        if self.turned_away < self._times:
            self.turned_away += 1
            send(writer, self._status, "", b"", Retry_After=self._seconds)
            return
        await super().call(request, writer, stream)


class AsksNewcomersToWaitOverSse(CountingSse):
    """Turns the first `times` streams away, and says when to come back."""

    def __init__(self, status: int, seconds: str, times: int) -> None:
        super().__init__()
        self._status, self._seconds, self._times = status, seconds, times
        self.turned_away = 0

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.verb == "GET" and self.turned_away < self._times:
            self.turned_away += 1
            send(writer, self._status, "", b"", Retry_After=self._seconds)
        else:
            await super().answer(request, writer)


class KeepsTasks(CountingServer):
    """`job` can only be called as a task (2025-11-25), `either` as one or not. A task ends when `finish` is set, in
    whatever session it is asked about. Its tasks and their result have fields that nobody knows. It hangs up on the
    next `lose` questions about tasks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.finish = asyncio.Event()
        self.cancelled: list[str] = []
        self.message = "begun"
        self.lose = 0

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "tools/list" and request.headers.get("mcp-session-id") in self.sessions:
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}
                for name, support in (("job", "required"), ("either", "optional"))
            ]
            send(writer, 200, JSON, request.answered({"tools": tools}))
        else:
            await super().answer(request, writer)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        method, params = request.rpc_method, request.body["params"]
        if method.startswith("tasks/") and self.lose:
            self.lose -= 1
            writer.close()
            return
        task = {"taskId": "t", "status": "completed" if self.finish.is_set() else "working", "ttl": 60_000}
        task |= {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollInterval": 20}
        task["statusMessage"] = self.message
        results: dict[str, Any] = {
            "tools/call": {"task": task | UNKNOWN},
            "tasks/get": task | UNKNOWN,
            "tasks/result": {"content": [{"type": "text", "text": "done"}]} | UNKNOWN,
            "tasks/cancel": task,
        }
        if method == "tools/call" and "task" not in params:
            assert params["name"] == "either"
            self.executed.append("either, without a task")
            results[method] = results["tasks/result"]
        elif method == "tools/call":
            self.executed.append(params["name"])
        elif method == "tasks/cancel":
            self.cancelled.append(params["taskId"])
        send(writer, 200, JSON, request.answered(results[method]))
