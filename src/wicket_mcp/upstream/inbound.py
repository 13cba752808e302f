"""What an upstream says over HTTP or SSE, sorted: answers, notifications, and requests of its own.

Requests are put to the host in the background and answered through `reply`, a few at a time. Which request an
answer belongs to is the connection's business.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from wicket_mcp.codec import decode
from wicket_mcp.errors import Refused, WicketError, to_rpc
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Host, OnRequest

log = logging.getLogger(__name__)

ASKED_AT_ONCE = 32  # requests by one upstream under way; more of them are a flood and stay unanswered

_FOR_THE_HOST = frozenset(
    f"notifications/{what}"
    for what in ("tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated")
)


class Inbound:
    """Takes in what belongs to no request of ours, or only rides along with its answer."""

    def __init__(
        self, server: str, host: Host, reply: Callable[[JsonObject], Coroutine[Any, Any, None]], tasks: Tasks
    ) -> None:
        self._server = server
        self._host = host
        self._reply = reply
        self._tasks = tasks
        self._asked: dict[object, asyncio.Task[None]] = {}

    def hear(self, message: JsonObject, callbacks: Callbacks = NO_CALLBACKS) -> None:
        """Take in a message that has a method. What rides on a request's answer goes to its `callbacks`."""
        method: Any = message.get("method")
        given = as_object(message.get("params"))
        if not isinstance(method, str):
            log.debug("server '%s' sent a message without a proper method", self._server)
        elif "id" in message:
            self._consider(message["id"], method, given, callbacks.request or self._host.request)
        elif method == "notifications/cancelled":
            self._withdraw(given.get("requestId"))
        elif callbacks.notification is None or method in _FOR_THE_HOST:
            self._host.notification(method, given)
        else:
            callbacks.notification(method, given)

    def _consider(self, number: Any, method: str, params: JsonObject, ask: OnRequest) -> None:
        if len(self._asked) >= ASKED_AT_ONCE or not isinstance(number, str | int):
            log.debug("server '%s' asks too much at once, or without an id; %s stays unanswered", self._server, method)
            return
        task = self._tasks.start(self._serve(number, method, params, ask), f"{self._server} asks {method}")
        self._asked[number] = task
        task.add_done_callback(lambda _: self._asked.pop(number, None))

    def _withdraw(self, number: Any) -> None:
        """The upstream takes a request of its own back: whoever is asked is told, and nothing is answered."""
        if isinstance(number, str | int) and (task := self._asked.get(number)):
            task.cancel()

    async def _serve(self, number: Any, method: str, params: JsonObject, ask: OnRequest) -> None:
        try:
            outcome: JsonObject = {"result": await ask(method, params)}
        except WicketError as problem:
            outcome = {"error": to_rpc(problem)}
        await self._reply({"jsonrpc": "2.0", "id": number, **outcome})


def messages(data: bytes) -> list[JsonObject]:
    """The JSON-RPC messages in `data`: one, or a batch of protocol 2025-03-26. Raises ValueError."""
    content: Any = decode(data)
    if isinstance(content, dict):
        return [content]
    if isinstance(content, list) and all(isinstance(message, dict) for message in content):  # pyright: ignore[reportUnknownVariableType]
        return content  # pyright: ignore[reportUnknownVariableType]
    raise ValueError("not a JSON-RPC message")


def result_of(server: str, message: JsonObject) -> JsonObject:
    """The result that an answer carries. Raises Refused, or ValueError when it has neither outcome."""
    error: Any = message.get("error")
    result: Any = message.get("result")
    if isinstance(error, dict):
        raise Refused(server, error)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(result, dict):
        raise ValueError("an answer without a result")
    return result  # pyright: ignore[reportUnknownVariableType]
