"""HTTP+SSE, the transport of protocol 2024-11-05, which many servers still speak.

One GET stream carries everything that the upstream says; its first event names the address to which messages
are posted. The stream is opened by the first request. When it ends, the connection is over.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Mapping, Sequence

from wicket_mcp.codec import encode
from wicket_mcp.errors import Crashed, Refused, Unavailable, UpstreamError
from wicket_mcp.model import MODERN_VERSION, JsonObject, as_object
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Host, OnNotification
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED, Answer, Endpoint, HttpClient, in_words, shown
from wicket_mcp.upstream.event_stream import Event, EventParser, OversizedEventError
from wicket_mcp.upstream.http_errors import excerpt, refusal, violation
from wicket_mcp.upstream.http_headers import EVENTS, standing
from wicket_mcp.upstream.inbound import Inbound, messages, result_of
from wicket_mcp.upstream.listener import subscription

log = logging.getLogger(__name__)

GOODBYE = 2.0  # seconds for telling an upstream that we cancel


class SseConnection:
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
    ) -> None:
        self.protocol_version = ""
        self.envelope: JsonObject = {}
        """The `_meta` of a modern request, for the one that this connection makes itself: listening."""
        self._server = server
        self._endpoint = Endpoint.of(server, url, headers)
        self._headers = standing(headers)
        self._client = client
        self._host = host
        self._max_message = max_message
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[JsonObject]] = {}
        self._listeners: dict[str | int, OnNotification] = {}
        self._mailbox: Endpoint | None = None
        self._ended: UpstreamError | None = None
        self._decided = asyncio.Event()
        self._tasks = Tasks()
        self._inbound = Inbound(server, host, self._post, self._tasks)
        self._opened = False
        self._listening: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<SseConnection {self._server} {self._endpoint.shown} {self.protocol_version}>"

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        number = next(self._ids)
        message: JsonObject = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        token = _progress_token(as_object(params.get("_meta")))
        if callbacks.notification:
            self._listeners[token] = callbacks.notification
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            await self._post(message)
            return await answer
        except asyncio.CancelledError:
            if self._mailbox and not self._ended and method != "initialize":
                self._tasks.start(self._give_up(number), f"cancel request {number} to {self._server}")
            raise
        finally:
            del self._pending[number]
            self._listeners.pop(token, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # the POST may have failed first; then nobody else looks at it

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._post(message)

    async def listen(self, resources: Sequence[str] = ()) -> None:
        """One stream carries everything, but a modern upstream wants to be asked before it tells of changes."""
        if self._listening is not None:
            self._listening.cancel()
        if self.protocol_version == MODERN_VERSION:
            self._listening = self._tasks.start(self._subscribe(resources), f"listen to {self._server}")

    async def close(self) -> None:
        self._end(Unavailable(self._server, f"Server '{self._server}' was disconnected."), told=False)
        await self._tasks.close()

    # Sending

    async def _post(self, message: JsonObject) -> None:
        mailbox = self._mailbox or await self._open()
        if self._ended:
            raise self._ended
        answer = await self._client.send("POST", mailbox, self._headers, encode(message))
        if answer.status >= 400:
            raise await refusal(answer)
        answer.finish()

    async def _give_up(self, number: int) -> None:
        with contextlib.suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await self.notify("notifications/cancelled", {"requestId": number, "reason": "the caller gave up"})

    async def _subscribe(self, resources: Sequence[str]) -> None:
        with contextlib.suppress(UpstreamError):
            await self.request("subscriptions/listen", subscription(self.envelope, resources))

    async def _open(self) -> Endpoint:
        """Wait until the stream has said where to post; the first to come opens it."""
        if not self._opened:
            self._opened = True
            self._tasks.start(self._read(), f"read events of {self._server}")
        await self._decided.wait()
        if self._mailbox is None or self._ended:
            raise self._ended or Unavailable(self._server, f"Server '{self._server}' is not connected.")
        return self._mailbox

    # Reading the stream

    async def _read(self) -> None:
        answer: Answer | None = None
        try:
            headers = self._headers | {"Accept": EVENTS}
            del headers["Content-Type"]
            answer = await self._client.send("GET", self._endpoint, headers)
            await self._follow(answer)
            problem: UpstreamError = self._gone()
        except OversizedEventError:
            problem = violation(self._endpoint, f"sent an event larger than {in_words(self._max_message)}")
        except Crashed:
            problem = self._gone()
        except UpstreamError as other:
            problem = other
        finally:
            if answer is not None:
                answer.close()
        self._end(problem, told=self._mailbox is not None)

    async def _follow(self, answer: Answer) -> None:
        if answer.status >= 400:
            raise await refusal(answer)
        if answer.media_type != EVENTS:
            what = f"answered HTTP {answer.status} with content type '{answer.media_type}', not with events"
            raise violation(self._endpoint, what)
        parser = EventParser(self._max_message)
        while chunk := await answer.read():
            for event in parser.feed(chunk):
                self._take(event)

    def _take(self, event: Event) -> None:
        if event.type == "endpoint" and self._mailbox is None:
            location = event.data.decode("utf-8", "replace").strip()
            address = self._endpoint.resolve(location)
            if address is None:
                raise violation(self._endpoint, f"wants messages posted to another origin, {shown(location)}")
            self._mailbox = self._endpoint.at(address)
            self._decided.set()
        elif event.type == "message":
            try:
                for message in messages(event.data):
                    self._sort(message)
            except ValueError:
                said = excerpt(event.data, self._endpoint)
                log.debug("server '%s' sent an event that is not JSON-RPC: %s", self._server, said)

    def _sort(self, message: JsonObject) -> None:
        if "method" in message:
            token = _progress_token(as_object(message.get("params")))
            self._inbound.hear(message, Callbacks(self._listeners.get(token)) if token != "" else NO_CALLBACKS)
            return
        number = message.get("id")
        answer = self._pending.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            log.debug("server '%s' answered a request that nobody waits for", self._server)
            return
        try:
            answer.set_result(result_of(self._server, message))
        except Refused as refused:
            answer.set_exception(refused)
        except ValueError:
            answer.set_exception(violation(self._endpoint, "gave an answer without a result", encode(message)))

    def _gone(self) -> UpstreamError:
        text = f"Server '{self._server}' at {self._endpoint.shown} ended its stream of events"
        if self._mailbox is None:
            hint = "Check that its URL is the address of its MCP endpoint."
            return Unavailable(self._server, f"{text} before it said where to post messages.", hint=hint)
        return Crashed(self._server, f"{text}.", hint=MAY_HAVE_ACTED)

    def _end(self, reason: UpstreamError, *, told: bool) -> None:
        if self._ended:
            return
        self._ended = reason
        self._decided.set()
        # What waits here was sent already, even if the reason is one that lets others try again.
        sent = Crashed(self._server, reason.message, hint=MAY_HAVE_ACTED) if reason.retryable else reason
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(sent)
        if told:
            self._host.closed(reason)


def _progress_token(holder: JsonObject) -> str | int:
    token = holder.get("progressToken")
    return token if isinstance(token, str | int) else ""
