"""What both HTTP transports share: an address with its headers, and a JSON-RPC peer whose messages are posted.

How a message is posted, what its answer means and how the upstream speaks unasked is the transport's own business
(`http.py`, `sse.py`).
"""

import abc
from collections.abc import Mapping

from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import Callbacks, Rpc
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Host
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.http_headers import standing


class PostingConnection(abc.ABC):
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
        self._rpc = Rpc(server, self._dispatch, Callbacks(host.notification, host.request))
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._server} {self._endpoint.shown} {self.protocol_version}>"

    @property
    def strays(self) -> int:
        return self._rpc.strays

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        await self._rpc.notify(method, params)

    @abc.abstractmethod
    async def _dispatch(self, message: JsonObject) -> None:
        """Post a message whose answer, if any, comes another way. Raises UpstreamError."""

    async def _close_tasks(self) -> None:
        await self._rpc.close()
        await self._tasks.close()
