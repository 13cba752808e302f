"""What both HTTP transports share: an address with its headers, and a JSON-RPC peer whose messages are posted.

The transports (`http.py`, `sse.py`) decide how a message is posted, what its answer means and how the upstream sends
unsolicited messages.
"""

import abc
import asyncio
import logging
from collections.abc import Mapping

from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.rpc import Callbacks, OnNotification, Rpc
from wicket_mcp.tasks import Tasks
from wicket_mcp.telemetry.known import KNOWN
from wicket_mcp.upstream.connection import Host, Versioned
from wicket_mcp.upstream.credentials import Credentials
from wicket_mcp.upstream.egress import Answer, Endpoint, HttpClient
from wicket_mcp.upstream.http_errors import violation
from wicket_mcp.upstream.http_headers import standing
from wicket_mcp.upstream.throttle import SLOWED, Throttle

log = logging.getLogger(__name__)

ATTEMPTS = 3  # of one request whose credentials are rejected: as they are, renewed, and with a nonce


class PostingConnection(Versioned, abc.ABC):
    """The common half of a Connection over HTTP."""

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
        self._server = server
        self._endpoint = Endpoint.of(server, url, headers)
        self._headers = standing(headers)
        self._client = client
        self._credentials = credentials
        self._host = host
        self._max_message = max_message
        self._rpc = Rpc(server, self._dispatch, Callbacks(self._notification_of(host), host.request))
        self._tasks = Tasks()
        self._throttle = Throttle(asyncio.get_running_loop().time())

    def _notification_of(self, host: Host) -> OnNotification:
        return host.notification

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._server} {self._endpoint.shown} {self._version}>"

    @property
    def strays(self) -> int:
        return self._rpc.strays

    def stderr_tail(self) -> tuple[()]:
        return ()

    @property
    def slowed(self) -> bool:
        return self._throttle.slowed

    async def notify(self, method: str, params: JsonObject | None = None, principal: Principal | None = None) -> None:
        await self._rpc.notify(method, params)

    async def _send(
        self, verb: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Send one request with our credentials; if they are rejected, send it again with renewed ones."""
        credentials = self._credentials
        if credentials is None:
            return await self._client.send(verb, endpoint, headers, body)
        for attempt in range(ATTEMPTS):
            own = await credentials.headers(verb, endpoint.url, body)
            KNOWN.remember((own.get("Authorization", "").partition(" ")[2],))
            answer = await self._client.send(verb, endpoint, {**headers, **own}, body)
            if answer.status not in (401, 403):
                return answer
            final = attempt == ATTEMPTS - 1
            try:
                retry = await credentials.handle_rejection(answer, own, final=final)
            except BaseException:
                answer.close()
                raise
            if final or not retry:
                return answer
            answer.close()
        raise AssertionError("unreachable: the last turn of the loop returns")

    async def _pace(self, heard: int) -> None:
        """Account for the messages since `heard`, and wait before reading more if there were too many.

        Raises ProtocolViolation if there have been too many for too long.
        """
        received = self._rpc.heard - heard
        if not received:
            return
        was_slowed = self._throttle.slowed
        pause = self._throttle.spend(received, asyncio.get_running_loop().time())
        if self._throttle.exceeded:
            problem = violation(self._endpoint, "floods Wicket with messages that nobody asked for")
            self._cut(problem)
            raise problem
        if self._throttle.slowed and not was_slowed:
            log.warning(SLOWED, self._server)
        if pause:
            await asyncio.sleep(pause)

    @abc.abstractmethod
    def _cut(self, reason: UpstreamError) -> None:
        """End the connection and report the reason to its owner."""

    @abc.abstractmethod
    async def _dispatch(self, message: JsonObject) -> None:
        """Post a message whose answer, if any, comes over another stream. Raises UpstreamError."""

    async def _close_tasks(self) -> None:
        await self._rpc.close()
        await self._tasks.close()
