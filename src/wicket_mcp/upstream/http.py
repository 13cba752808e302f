"""Streamable HTTP, both eras: every request is one POST, answered with JSON or with a stream of events.

Knows the protocol's HTTP rules: its headers, the session of the legacy era and how it ends, resuming a stream that
broke off, how to listen, how to cancel. Only the listening stream stays open between requests.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wicket_mcp.errors import Crashed, NotSent, Refused, UpstreamError
from wicket_mcp.large_json import encode_message
from wicket_mcp.model import META_SUBSCRIPTION, MODERN_VERSION, JsonObject, as_object
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks, Id, decode_message, list_messages, note_sent, read_id, read_result
from wicket_mcp.upstream.connection import Host
from wicket_mcp.upstream.credentials import Credentials
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED, Answer, HttpClient, in_words
from wicket_mcp.upstream.event_stream import EventParser, OversizedEventError
from wicket_mcp.upstream.http_errors import (
    ERROR_BODY,
    HttpFailed,
    HttpRefused,
    HttpRpcError,
    lost_session,
    refusal,
    violation,
)
from wicket_mcp.upstream.http_headers import EVENTS, JSON, routing
from wicket_mcp.upstream.listener import Listener
from wicket_mcp.upstream.posting import PostingConnection
from wicket_mcp.upstream.subscription import ACKNOWLEDGED, LISTEN_GRACE, subscription_params

if TYPE_CHECKING:
    from wicket_mcp.upstream.kept_sessions import KeptSession

__all__ = ["HttpClient", "HttpConnection", "HttpFailed", "HttpRefused", "HttpRpcError"]

CLOSE_GRACE = 2.0  # seconds for telling an upstream that we disconnect
RESUMES = 2  # times in a row that a stream may end without data before its request fails
RESUME_PAUSE = 1.0
LONGEST_RESUME_PAUSE = 30.0
_SAFE_BITS = 52  # ids stay below 2**53, which every JSON parser reads exactly


class HttpConnection(PostingConnection):
    """A Connection over Streamable HTTP."""

    def __init__(
        self,
        server: str,
        url: str,
        headers: Mapping[str, str],
        client: HttpClient,
        host: Host,
        *,
        max_message: int,
        credentials: Credentials | None = None,
        record: "KeptSession | None" = None,
    ) -> None:
        """`record` is that of the session that we shall have there, if another replica may continue it."""
        super().__init__(server, url, headers, client, host, max_message=max_message, credentials=credentials)
        self._session = ""
        self._record = record
        self._closed = False
        self._listener: Listener | None = None
        self._listening: asyncio.Task[None] | None = None
        self._subscription: Id = 0
        self._watched: tuple[str, ...] = ()

    @property
    def session(self) -> str:
        """The id of our session at the server; empty if it has none."""
        return self._session

    def resume(self, session: str) -> None:
        """Go on in a session that another gateway began: with ids that it has not used there."""
        self._session = session
        self._rpc.number_from(secrets.randbits(_SAFE_BITS))

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        modern = self._version == MODERN_VERSION
        number = self._rpc.mint_id()
        note_sent(method, number, self._session)
        message: JsonObject = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer: Answer | None = None
        try:
            answer = await self._post(message, headers)
            if method == "initialize":
                self._session = answer.header("Mcp-Session-Id")
            if answer.media_type == EVENTS:
                return await self._read_stream(answer, number, callbacks, resumable=not modern)
            return await self._read_document(answer, number, callbacks)
        except asyncio.CancelledError:
            # For a modern upstream the closed stream is the cancellation; the handshake must not be cancelled.
            if not modern and method != "initialize":
                self._rpc.cancel(number)
            raise
        finally:
            if answer is not None:
                answer.close()

    async def listen(self, resources: Sequence[str] = ()) -> None:
        self._watched = tuple(resources)
        modern = self._version == MODERN_VERSION
        if modern and self._listening is not None:
            self._listening.cancel()
        if modern or self._listener is None:  # the one stream of a legacy server carries everything
            open_stream, receive = (
                (self._subscribe, self._receive_from_subscription)
                if modern
                else (self._open_stream, self._receive_from_stream)
            )
            self._listener = Listener(open_stream, receive, self._overhear, self._max_message, acknowledged=modern)
            self._listening = self._tasks.start(self._listener.run(), f"listen to {self._server}")
        if resources:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LISTEN_GRACE):
                    await self._listener.settled.wait()
            if self._listener.refusal is not None:
                raise self._listener.refusal

    async def close(self) -> None:
        self._closed = True
        await self._close_tasks()
        if self._session and (self._record is None or await self._record.end()):
            with contextlib.suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(CLOSE_GRACE):
                    answer = await self._send("DELETE", self._endpoint, self._build_headers("", None))
                    answer.close()

    # Sending

    async def _post(self, message: JsonObject, extra: Mapping[str, str] | None = None) -> Answer:
        if self._closed:
            text = f"The connection to server '{self._server}' was closed."
            raise NotSent(self._server, text, hint="Try again; the session is opened again.")
        method = message.get("method", "")
        headers = self._build_headers(method, message.get("params"))
        if extra:
            headers.update(extra)
        answer = await self._send("POST", self._endpoint, headers, await encode_message(message))
        if answer.url != self._endpoint.url:
            self._endpoint = self._endpoint.at(answer.url)
        if answer.status >= 400:
            raise await self._read_refusal(answer, in_session="Mcp-Session-Id" in headers)
        return answer

    async def _dispatch(self, message: JsonObject) -> None:
        """Send a message that has no answer."""
        (await self._post(message)).finish()

    async def _get(self, last_id: str) -> Answer | None:
        """Open a stream of events; None if the answer is something else."""
        headers = self._build_headers("", None) | {"Accept": EVENTS}
        del headers["Content-Type"]
        if last_id:
            headers["Last-Event-ID"] = last_id
        answer = await self._send("GET", self._endpoint, headers)
        if answer.status >= 400:
            raise await self._read_refusal(answer, in_session=bool(self._session))
        if answer.status == 200 and answer.media_type == EVENTS:
            return answer
        answer.close()
        return None

    def _build_headers(self, method: str, params: JsonObject | None) -> dict[str, str]:
        headers = self._headers | routing(self._version, method, params)
        if self._session and method != "initialize":
            headers["Mcp-Session-Id"] = self._session
        return headers

    async def _read_refusal(self, answer: Answer, *, in_session: bool) -> UpstreamError:
        problem = await refusal(answer)
        if not in_session or not lost_session(problem):
            return problem
        self._session = ""
        text = f"Server '{self._server}' no longer knows the session; nothing was done."
        expired = NotSent(self._server, text, hint="Try again; the next call opens a new one.")
        self._cut(expired)
        return expired

    def _cut(self, reason: UpstreamError) -> None:
        if not self._closed:
            self._closed = True
            if self._listening and self._listening is not asyncio.current_task():
                self._listening.cancel()
            self._host.on_closed(reason)

    # Reading answers

    async def _read_document(self, answer: Answer, number: Id, callbacks: Callbacks) -> JsonObject:
        """The result from an answer that is one JSON document."""
        if answer.media_type != JSON or answer.status != 200:
            fault = f"answered HTTP {answer.status} with content type '{answer.media_type}'"
            raise violation(self._endpoint, fault, await answer.read())
        body = await answer.body(self._max_message)
        try:
            result = self._take(await decode_message(body), number, callbacks)
        except ValueError:
            raise violation(self._endpoint, "gave an answer that is not JSON-RPC", body) from None
        if result is None:
            raise violation(self._endpoint, "answered another request than ours", body)
        return result

    async def _read_stream(self, answer: Answer, number: Id, callbacks: Callbacks, *, resumable: bool) -> JsonObject:
        """The result at the end of a stream of events; with a legacy server a broken stream can be resumed."""
        parser = EventParser(self._max_message)
        silent = 0
        while True:
            before = parser.last_id
            result = await self._follow(answer, parser, number, callbacks)
            if result is not None:
                return result
            silent = silent + 1 if parser.last_id == before else 0
            if not resumable or not parser.last_id or silent > RESUMES:
                raise self._end_of_stream()
            await asyncio.sleep(min(RESUME_PAUSE if parser.retry is None else parser.retry, LONGEST_RESUME_PAUSE))
            answer = await self._resume(parser.last_id)

    async def _follow(self, answer: Answer, parser: EventParser, number: Id, callbacks: Callbacks) -> JsonObject | None:
        """The result, or None if the stream ends without it."""
        unreadable = b""
        try:
            more = True
            while more:
                chunk = await answer.read()
                more = bool(chunk)
                heard, noise = self._rpc.heard, parser.noise
                for event in parser.feed(chunk) if more else parser.end():
                    if event.type != "message":
                        self._rpc.overhear()
                        continue
                    try:
                        result = self._take(await decode_message(event.data), number, callbacks)
                    except ValueError:
                        unreadable = event.data
                        if read_id(event.data) == number:
                            more = False
                            break
                        self._rpc.overhear()
                    except Refused:
                        answer.finish()
                        raise
                    else:
                        if result is not None:
                            answer.finish()
                            return result
                self._rpc.overhear(parser.noise - noise)
                await self._pace(heard)
        except OversizedEventError:
            size = in_words(self._max_message)
            raise violation(self._endpoint, f"sent an event larger than {size}") from None
        except Crashed:
            parser.end()
        finally:
            answer.close()
        if unreadable:
            raise violation(self._endpoint, "sent an event that is not JSON-RPC", unreadable)
        return None

    async def _resume(self, last_id: str) -> Answer:
        try:
            answer = await self._get(last_id)
        except UpstreamError:
            answer = None
        if answer is None:
            raise self._end_of_stream()
        return answer

    def _end_of_stream(self) -> Crashed:
        text = f"Server '{self._server}' at {self._endpoint.shown} ended its answer before the result came."
        return Crashed(self._server, text, hint=MAY_HAVE_ACTED)

    def _take(self, content: Any, number: Id, callbacks: Callbacks) -> JsonObject | None:
        """Process a part of an answer; returns the result once it has arrived. Raises Refused or ValueError."""
        modern = self._version == MODERN_VERSION
        for message in list_messages(content):
            if "method" in message:
                if not modern or "id" not in message:
                    self._rpc.receive(message, callbacks)
                else:  # a modern server cannot send requests
                    self._rpc.overhear()
            elif (identity := message.get("id")) == number or (identity is None and "error" in message):
                return read_result(self._server, message)
            else:
                self._rpc.overhear()
        return None

    # Listening

    async def _overhear(self, count: int) -> None:
        heard = self._rpc.heard
        self._rpc.overhear(count)
        await self._pace(heard)

    async def _open_stream(self, last_id: str) -> Answer | None:
        return None if self._closed else await self._get(last_id)

    async def _receive_from_stream(self, data: bytes) -> None:
        heard = self._rpc.heard
        self._rpc.receive(await decode_message(data))
        await self._pace(heard)

    async def _subscribe(self, _: str) -> Answer | None:
        self._subscription = self._rpc.mint_id()
        message: JsonObject = {"jsonrpc": "2.0", "id": self._subscription, "method": "subscriptions/listen"}
        answer = await self._post(message | {"params": subscription_params(self._watched, self.relayed)})
        if answer.media_type == EVENTS:
            return answer
        try:
            with contextlib.suppress(ValueError):
                await self._receive_from_subscription(await answer.body(ERROR_BODY))
        finally:
            answer.close()
        return None

    async def _receive_from_subscription(self, data: bytes) -> None:
        heard = self._rpc.heard
        for message in list_messages(await decode_message(data)):
            if "method" not in message and message.get("id") == self._subscription:
                read_result(self._server, message)
            elif "id" not in message and message.get("method") != ACKNOWLEDGED:
                tags = as_object(as_object(message.get("params")).get("_meta"))
                if tags.get(META_SUBSCRIPTION) == self._subscription:
                    self._rpc.receive(message)
        await self._pace(heard)
