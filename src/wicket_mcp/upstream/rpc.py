"""JSON-RPC bookkeeping for a connection that carries both directions on one stream (stdio, SSE).

Mints the ids, matches answers to requests, routes progress to the request it belongs to, answers the upstream's
own requests. Pure state plus a `send` function; knows no transport.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.errors import Refused, UpstreamError, WicketError, to_rpc
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Host, OnNotification

log = logging.getLogger(__name__)


class Rpc:
    """The requests in flight on one connection."""

    def __init__(self, server: str, send: Callable[[bytes], None], host: Host) -> None:
        self.server = server
        self.strays = 0
        """Messages that fit nothing: late answers, unknown ids, wrong shapes. Counted, never fatal."""
        self._send = send
        self._host = host
        self._tasks = Tasks()
        self._next_id = 0
        self._pending: dict[int, asyncio.Future[JsonObject]] = {}
        self._listeners: dict[str | int, OnNotification] = {}
        self._asked: dict[str | int, asyncio.Task[None]] = {}
        """The upstream's own requests that are not answered yet."""

    def __len__(self) -> int:
        return len(self._pending)

    async def request(self, method: str, params: JsonObject, on_notification: OnNotification | None) -> JsonObject:
        self._next_id += 1
        number = self._next_id
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        token = _progress_token(params) if on_notification else None
        if token is not None and on_notification is not None:
            self._listeners[token] = on_notification
        try:
            self._send(encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            return await answer
        except asyncio.CancelledError:
            if number in self._pending and method != "initialize":
                self.notify("notifications/cancelled", {"requestId": number, "reason": "the caller gave up"})
            raise
        finally:
            self._pending.pop(number, None)
            if token is not None:
                self._listeners.pop(token, None)

    def notify(self, method: str, params: JsonObject | None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._send(encode(message))

    def receive(self, message: Any) -> None:
        """Take in one decoded message, whatever it is."""
        if isinstance(message, list):  # the batches of protocol 2025-03-26
            for part in as_list(message):
                self.receive(part)
            return
        if not isinstance(message, dict):
            self.strays += 1
            return
        body = as_object(message)
        if "method" in body:
            self._hear(body)
        else:
            self._settle(body)

    def fail(self, reason: UpstreamError) -> None:
        """End every request in flight with `reason`."""
        for answer in list(self._pending.values()):
            if not answer.done():
                answer.set_exception(reason)

    async def close(self) -> None:
        await self._tasks.close()

    def _settle(self, message: JsonObject) -> None:
        answer = self._pending.get(message.get("id", -1)) if isinstance(message.get("id"), int) else None
        if answer is None or answer.done():
            self.strays += 1
            return
        error: Any = message.get("error")
        result: Any = message.get("result")
        if isinstance(error, dict):
            answer.set_exception(Refused(self.server, as_object(error)))
        elif isinstance(result, dict):
            answer.set_result(as_object(result))
        else:
            answer.set_exception(Refused(self.server, {"code": -32603, "message": "answered without a result"}))

    def _hear(self, message: JsonObject) -> None:
        method: Any = message["method"]
        given = as_object(message.get("params"))
        if not isinstance(method, str):
            self.strays += 1
        elif "id" in message:
            self._consider(message["id"], method, given)
        elif method == "notifications/cancelled":
            number: Any = given.get("requestId")
            if isinstance(number, str | int) and (task := self._asked.get(number)):
                task.cancel()
        elif method == "notifications/progress" and (listener := self._listeners.get(given.get("progressToken", ""))):
            listener(method, given)
        else:
            self._host.notification(method, given)

    def _consider(self, number: Any, method: str, params: JsonObject) -> None:
        if not isinstance(number, str | int):
            self.strays += 1
            return
        task = self._tasks.start(self._answer(number, method, params), f"{self.server} asks {method}")
        self._asked[number] = task
        task.add_done_callback(lambda _: self._asked.pop(number, None))

    async def _answer(self, number: str | int, method: str, params: JsonObject) -> None:
        try:
            outcome: JsonObject = {"result": await self._host.request(method, params)}
        except WicketError as problem:
            outcome = {"error": to_rpc(problem)}
        self._send(encode({"jsonrpc": "2.0", "id": number, **outcome}))


def _progress_token(params: JsonObject) -> str | int | None:
    return as_object(params.get("_meta")).get("progressToken")
