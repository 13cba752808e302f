"""HTTP+SSE, the transport of protocol 2024-11-05, which many servers still speak.

One GET stream carries all messages of the upstream; its first event names the address for posting messages. The stream
is opened by the first request. When it ends, the connection is over.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from wicket_mcp.errors import Crashed, NotSent, Unavailable, UpstreamError
from wicket_mcp.large_json import encode_message
from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks, OnNotification, decode_message, read_id
from wicket_mcp.telemetry.redact import mask_url
from wicket_mcp.upstream.connection import Host
from wicket_mcp.upstream.credentials import Credentials
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED, Answer, Endpoint, HttpClient, in_words
from wicket_mcp.upstream.event_stream import Event, EventParser, OversizedEventError
from wicket_mcp.upstream.http_errors import lost_session, refusal, violation
from wicket_mcp.upstream.http_headers import EVENTS
from wicket_mcp.upstream.posting import PostingConnection
from wicket_mcp.upstream.subscription import Subscription

log = logging.getLogger(__name__)


class SseConnection(PostingConnection):
    """A Connection over HTTP+SSE."""

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
    ) -> None:
        self._subscription = Subscription(self)
        super().__init__(server, url, headers, client, host, max_message=max_message, credentials=credentials)
        self._post_endpoint: Endpoint | None = None
        self._ended: UpstreamError | None = None
        self._opening_ended = asyncio.Event()
        self._opened = False
        self._taken = False
        """Whether a message of ours was accepted: then a later 404 means that our session is gone."""

    def _notification_of(self, host: Host) -> OnNotification:
        return self._subscription.noting(host.notification)

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        if self._post_endpoint is None:
            await self._open()  # before the request exists, so that giving up here has nothing to cancel
        return await self._rpc.request(method, params, callbacks)

    async def listen(self, resources: Sequence[str] = ()) -> None:
        await self._subscription.listen(resources)

    async def close(self) -> None:
        self._end(Unavailable(self._server, f"Server '{self._server}' was disconnected."), report=False)
        await self._subscription.close()
        await self._close_tasks()

    # Sending

    async def _dispatch(self, message: JsonObject) -> None:
        endpoint = self._post_endpoint or await self._open()
        if self._ended:
            raise NotSent(self._server, self._ended.message, hint="Nothing was sent; try again.")
        answer = await self._send("POST", endpoint, self._headers, await encode_message(message))
        if answer.status >= 400:
            problem = await refusal(answer)
            raise self._lose_session() if self._taken and lost_session(problem) else problem
        self._taken = True
        answer.finish()

    async def _open(self) -> Endpoint:
        """Wait until the stream has sent the address for posting; the first caller opens the stream."""
        if not self._opened:
            self._opened = True
            self._tasks.start(self._read(), f"read events of {self._server}")
        await self._opening_ended.wait()
        if self._post_endpoint is None or self._ended:
            raise self._ended or Unavailable(self._server, f"Server '{self._server}' is not connected.")
        return self._post_endpoint

    def _lose_session(self) -> NotSent:
        text = f"Server '{self._server}' no longer knows the session; nothing was done."
        lost = NotSent(self._server, text, hint="Try again; the next call opens a new one.")
        self._end(lost, report=True)
        return lost

    # Reading the stream

    async def _read(self) -> None:
        answer: Answer | None = None
        try:
            headers = self._headers | {"Accept": EVENTS}
            del headers["Content-Type"]
            answer = await self._send("GET", self._endpoint, headers)
            await self._follow(answer)
            problem: UpstreamError = self._end_of_stream()
        except OversizedEventError:
            problem = violation(self._endpoint, f"sent an event larger than {in_words(self._max_message)}")
        except Crashed:
            problem = self._end_of_stream()
        except UpstreamError as other:
            problem = other
        finally:
            if answer is not None:
                answer.close()
        self._end(problem, report=self._post_endpoint is not None)

    async def _follow(self, answer: Answer) -> None:
        if answer.status >= 400:
            raise await refusal(answer)
        if answer.media_type != EVENTS:
            fault = f"answered HTTP {answer.status} with content type '{answer.media_type}', not with events"
            raise violation(self._endpoint, fault)
        parser = EventParser(self._max_message)
        while chunk := await answer.read():
            heard, noise = self._rpc.heard, parser.noise
            for event in parser.feed(chunk):
                await self._take(event)
            self._rpc.overhear(parser.noise - noise)
            await self._pace(heard)

    async def _take(self, event: Event) -> None:
        if event.type == "endpoint" and self._post_endpoint is None:
            location = event.data.decode("utf-8", "replace").strip()
            address = self._endpoint.resolve(location)
            if address is None:
                raise violation(self._endpoint, f"wants messages posted to another origin, {mask_url(location)}")
            self._post_endpoint = self._endpoint.at(address)
            self._opening_ended.set()
        elif event.type == "message":
            try:
                message: Any = await decode_message(event.data)
            except ValueError as problem:
                self._reject(event.data, problem)
            else:
                self._rpc.receive(message)
        else:
            self._rpc.overhear()

    def _reject(self, data: bytes, problem: ValueError) -> None:
        """Fail the call whose answer cannot be decoded, if it can be seen which call that is."""
        number = read_id(data)
        error = violation(self._endpoint, f"sent an answer that cannot be read ({problem})", data)
        if number is None or not self._rpc.reject(number, error):
            log.debug("%s", error)
            self._rpc.overhear()

    def _end_of_stream(self) -> UpstreamError:
        text = f"Server '{self._server}' at {self._endpoint.shown} ended its stream of events"
        if self._post_endpoint is None:
            hint = "Check that its URL is the address of its MCP endpoint."
            return Unavailable(self._server, f"{text} before it said where to post messages.", hint=hint)
        return Crashed(self._server, f"{text}.", hint=MAY_HAVE_ACTED)

    def _cut(self, reason: UpstreamError) -> None:
        self._end(reason, report=True)

    def _end(self, reason: UpstreamError, *, report: bool) -> None:
        if self._ended:
            return
        self._ended = reason
        self._opening_ended.set()
        # Waiting requests were already sent, even if the reason would allow others to retry.
        error = Crashed(self._server, reason.message, hint=MAY_HAVE_ACTED) if reason.retryable else reason
        self._rpc.fail(error)
        if report:
            self._host.on_closed(reason)
