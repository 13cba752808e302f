"""The JSON-RPC peer: our side of a conversation with an upstream (stdio, SSE, HTTP) or with a client.

Creates ids, matches answers to requests, routes progress to its request, answers the peer's own requests, and limits
what a peer can make us hold. State plus a `send` function: knows no transport, no era and no deadline. `receive`
accepts any message of the peer and never raises: a bad message affects nothing else. If an answer comes with its
request (Streamable HTTP), the transport reads it there and leaves the rest to this class.
"""

import asyncio
import contextlib
import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeGuard

import msgspec

from wicket_mcp.codec import LARGE, TooDeep, cut_depths, decode
from wicket_mcp.errors import Internal, ProtocolViolation, Refused, WicketError, to_rpc
from wicket_mcp.large_json import decode_off_loop
from wicket_mcp.model import JsonObject, Principal, as_list, as_object
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

MAX_PEER_REQUESTS = 32  # a peer's own requests in progress; more of them are a flood and stay unanswered
MAX_BATCH = 500  # messages of one batch that are read: all of them are handled in one turn of the loop
CANCEL_GRACE = 2.0  # seconds for sending a cancellation, if sending takes time

CONNECTION_WIDE = frozenset(
    f"notifications/{event}"
    for event in ("tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated")
)
"""Notifications that concern the whole connection, even if they arrive with the answer to one request."""

_LISTS = ("tools", "prompts", "resources", "resourceTemplates")

Id: TypeAlias = int | str
_ID_TYPES = (int, str)
OnNotification: TypeAlias = Callable[[str, JsonObject], None]
OnRequest: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonObject]]
Send: TypeAlias = Callable[[JsonObject], Coroutine[Any, Any, None] | None]
"""Sends one message to the peer, at once or by the time the returned coroutine has ended."""


class Callbacks(msgspec.Struct, frozen=True):
    """Receives a peer's messages and answers its questions: for one request, or for a whole connection."""

    notification: OnNotification | None = None
    request: OnRequest | None = None
    principal: Principal | None = None
    """Who makes the request, if somebody between us and the server must know (`upstream/owner.py`)."""


NO_CALLBACKS = Callbacks()


class Sent(msgspec.Struct, frozen=True):
    """How the peer knows a request."""

    number: Id
    session: str = ""


SENT: ContextVar[dict[str, Sent] | None] = ContextVar("sent", default=None)
"""Filled, by method, with what was sent last, for a trace that wants to know."""


def note_sent(method: str, number: Id, session: str = "") -> None:
    """Every transport calls this when it sends a request."""
    if (sent := SENT.get()) is not None:
        sent[method] = Sent(number, session)


class Rpc:
    """Our side of one conversation."""

    def __init__(self, peer: str, send: Send, callbacks: Callbacks = NO_CALLBACKS, *, id_prefix: str = "") -> None:
        """`peer` names the other side in errors; `callbacks` receive what belongs to no request of ours."""
        self.peer = peer
        self.strays = 0
        """Messages that match nothing: late answers, unknown ids, wrong shapes, a flood of requests. Never fatal."""
        self.heard = 0
        """What the peer has sent so far that answers nothing: notifications, requests, strays, things that are no
        message."""
        self._send = send
        self._callbacks = callbacks
        numbers = itertools.count(1)
        self.mint_id: Callable[[], Id] = (lambda: f"{id_prefix}{next(numbers)}") if id_prefix else numbers.__next__
        """Creates a new id."""
        self._pending: dict[Id, asyncio.Future[JsonObject]] = {}
        self._progress: dict[Id, OnNotification] = {}
        self._peer_requests: dict[Id, asyncio.Task[None]] = {}
        self._flooded = False
        self._tasks = Tasks()
        self._loop: asyncio.AbstractEventLoop | None = None  # known at the first request: asking costs a system call

    def __repr__(self) -> str:
        unanswered = len(self._peer_requests)
        return f"<Rpc {self.peer} | {len(self._pending)} pending, {unanswered} to answer, {self.strays} strays>"

    def __len__(self) -> int:
        """How many of our requests are not answered yet."""
        return len(self._pending)

    # Our requests and notifications

    def number_from(self, first: int) -> None:
        """Create ids from this one on."""
        self.mint_id = itertools.count(first).__next__

    async def request(
        self, method: str, params: JsonObject, callbacks: Callbacks = NO_CALLBACKS, send: Send | None = None
    ) -> JsonObject:
        """Send one request and wait for its result.

        Raises Refused (the peer's own error), ProtocolViolation (an invalid answer), what `send` raises, or the reason
        given to `fail`. Cancelling the wait tells the peer. `send` replaces the connection's own.
        """
        send = send or self._send
        number = self.mint_id()
        note_sent(method, number)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        answer = self._pending[number] = self._loop.create_future()
        token: Any = None
        if callbacks.notification is not None:
            token = as_object(params.get("_meta")).get("progressToken")
            if is_id(token):
                self._progress[token] = callbacks.notification
            else:
                token = None
        try:
            sending = send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            if sending is not None:
                await sending
            return await answer
        except asyncio.CancelledError:
            answered = answer.done() and not answer.cancelled()
            if not answered and method != "initialize":  # the protocol forbids cancelling the handshake
                self.cancel(number, send)
            raise
        finally:
            del self._pending[number], answer  # its error refers to this frame: a cycle that the collector had to find
            if token is not None:
                self._progress.pop(token, None)

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        sending = self._send(message)
        if sending is not None:
            await sending

    def cancel(self, number: Id, send: Send | None = None) -> None:
        """Tell the peer that its answer is no longer needed. Never raises: a peer that is gone need not be told."""
        params = {"requestId": number, "reason": "the caller gave up"}
        with contextlib.suppress(WicketError):
            sending = (send or self._send)({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            if sending is not None:
                self._tasks.start(_try_for(CANCEL_GRACE, sending), f"cancel request {number} to {self.peer}")

    def fail(self, reason: WicketError) -> None:
        """Fail all our requests with `reason`."""
        for answer in self._pending.values():
            if not answer.done():
                _set_error(answer, reason)

    def reject(self, number: Id, reason: WicketError) -> bool:
        """Fail one of our requests with `reason`; False if no such request waits."""
        answer = self._pending.get(number)
        if answer is None or answer.done():
            return False
        _set_error(answer, reason)
        return True

    async def close(self) -> None:
        """Stop answering the peer and sending it cancellations."""
        await self._tasks.close()

    # Messages from the peer

    def receive(self, message: Any, callbacks: Callbacks = NO_CALLBACKS) -> None:
        """Process one decoded message or batch of any kind. Never raises.

        If the transport ties a message to one of our requests, `callbacks` are that request's.
        """
        if isinstance(message, dict):
            try:
                if "method" in message:
                    self._dispatch(message, callbacks)  # pyright: ignore[reportUnknownArgumentType]
                else:
                    self._settle(message)  # pyright: ignore[reportUnknownArgumentType]
            except Exception:  # a bug in one of our callbacks must not affect the next messages
                self.strays += 1
                log.exception("a message of '%s' could not be handled", self.peer)
        elif isinstance(message, list):  # the batches of protocol 2025-03-26, which do not nest
            parts = as_list(message)
            self._leave_out(len(parts) - MAX_BATCH)
            for part in parts[:MAX_BATCH]:
                self.receive(part if isinstance(part, dict) else None, callbacks)
        else:
            self._leave_out(1)

    def overhear(self, count: int = 1) -> None:
        """Count what came from the peer and is no message at all."""
        self.heard += count

    def _leave_out(self, count: int) -> None:
        """Count messages that match nothing, or that are too many."""
        if count > 0:
            self.strays += count
            self.heard += count

    def _settle(self, message: JsonObject) -> None:
        """Process the answer to one of our requests."""
        number: Any = message.get("id")
        answer = self._pending.get(number) if type(number) in _ID_TYPES else None
        if answer is None and isinstance(number, str) and _NUMBER.fullmatch(number):
            answer = self._pending.get(int(number))  # a peer that turns ids into text
        if answer is None or answer.done():
            self._leave_out(1)
            return
        try:
            answer.set_result(read_result(self.peer, message))
        except Refused as refused:
            _set_error(answer, refused)
        except ValueError:
            text = f"An answer without a result came from '{self.peer}'."
            hint = "It does not keep to the protocol: look for a newer version of it, or tell its author."
            _set_error(answer, ProtocolViolation(self.peer, text, hint=hint))

    def _dispatch(self, message: JsonObject, callbacks: Callbacks) -> None:
        """Pass a notification or a request of the peer to its callbacks."""
        self.heard += 1
        method: Any = message["method"]
        params = as_object(message.get("params"))
        if not isinstance(method, str):
            self.strays += 1
        elif "id" in message:
            self._begin_answer(message["id"], method, params, callbacks.request or self._callbacks.request)
        elif method == "notifications/cancelled":
            self._withdraw(params.get("requestId"))
        elif on_notification := self._listener(method, params, callbacks):
            on_notification(method, params)

    def _listener(self, method: str, params: JsonObject, callbacks: Callbacks) -> OnNotification | None:
        if method == "notifications/progress":
            token: Any = params.get("progressToken")
            if is_id(token) and (on_progress := self._progress.get(token)):
                return on_progress
        if callbacks.notification is None or method in CONNECTION_WIDE:
            return self._callbacks.notification
        return callbacks.notification

    # The peer's requests

    def _begin_answer(self, number: Any, method: str, params: JsonObject, on_request: OnRequest | None) -> None:
        if on_request is None or not is_id(number) or number in self._peer_requests:
            self.strays += 1
        elif len(self._peer_requests) >= MAX_PEER_REQUESTS:
            self.strays += 1
            if not self._flooded:
                self._flooded = True
                log.warning("'%s' has %d requests unanswered; more are ignored", self.peer, MAX_PEER_REQUESTS)
        else:
            task = self._tasks.start(self._answer(number, method, params, on_request), f"{self.peer} asks {method}")
            self._peer_requests[number] = task
            task.add_done_callback(lambda _: self._peer_requests.pop(number, None))

    def _withdraw(self, number: Any) -> None:
        """The peer cancels one of its requests: cancel its handler, and send nothing."""
        if is_id(number) and (task := self._peer_requests.get(number)):
            task.cancel()

    async def _answer(self, number: Id, method: str, params: JsonObject, on_request: OnRequest) -> None:
        try:
            outcome: JsonObject = {"result": await on_request(method, params)}
        except WicketError as problem:
            outcome = {"error": to_rpc(problem)}
        except Exception:  # a bug of ours, but the peer waits for an answer
            log.exception("%s of '%s' could not be answered", method, self.peer)
            outcome = {"error": to_rpc(Internal("Wicket failed to answer.", hint="Its log says why."))}
        with contextlib.suppress(WicketError):  # the peer is gone
            sending = self._send({"jsonrpc": "2.0", "id": number, **outcome})
            if sending is not None:
                await sending


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether `value` can be the id of a request. (A boolean is an integer to Python, but not here.)"""
    return type(value) in _ID_TYPES


_NUMBER = re.compile(r"[1-9][0-9]{0,14}")
_ID_FIRST = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$')


def read_id(data: bytes) -> int | None:
    """The id of the request that an undecodable message answers, if it can be seen."""
    match = _ID_FIRST.match(data) or _ID_LAST.search(data[-200:])
    return int(match[1]) if match else None


async def decode_message(data: bytes) -> Any:
    """One message of a peer, decoded off the loop if it is large. Raises ValueError."""
    if len(data) < LARGE:
        return decode_small_message(data)
    try:
        return await decode_off_loop(data)
    except TooDeep:
        return _require_list(await decode_off_loop(await asyncio.to_thread(cut_depths, data)))


def decode_small_message(data: bytes) -> Any:
    """One message of a peer. Raises ValueError."""
    try:
        return decode(data)
    except TooDeep:
        return _require_list(decode(cut_depths(data)))


def _require_list(message: Any) -> Any:
    """`message`, from which depths were cut, if it is a list: this costs only the entry that had them, which the reader
    of lists rejects. Raises TooDeep: in any other message, nothing may be missing.
    """
    result = as_object(as_object(message).get("result"))
    if "content" in result or not any(isinstance(result.get(key), list) for key in _LISTS):
        raise TooDeep
    return message


def list_messages(content: Any) -> list[JsonObject]:
    """The decoded JSON-RPC messages: one, or the first of a batch. Raises ValueError if there are none."""
    messages = [as_object(part) for part in (content[:MAX_BATCH] if isinstance(content, list) else [content])]  # pyright: ignore[reportUnknownVariableType]
    messages = [message for message in messages if message]
    if not messages:
        raise ValueError("not a JSON-RPC message")
    return messages


def read_result(peer: str, message: JsonObject) -> JsonObject:
    """The result in an answer. Raises Refused, or ValueError if it has neither result nor error."""
    error: Any = message.get("error")
    result: Any = message.get("result")
    if isinstance(error, dict):
        raise Refused(peer, error)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(result, dict):
        raise ValueError("an answer without a result")
    if "_meta" in result and not isinstance(result["_meta"], dict):
        del result["_meta"]  # it can mean nothing to anybody
    return result  # pyright: ignore[reportUnknownVariableType]


def _set_error(answer: asyncio.Future[JsonObject], problem: WicketError) -> None:
    answer.set_exception(problem)
    answer.exception()  # sending may fail before the answer is awaited; that is not a lost exception


async def _try_for(seconds: float, sending: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(WicketError, TimeoutError):
        async with asyncio.timeout(seconds):
            await sending
