"""What the pool needs of a connection, whatever carries it (a child's pipes, HTTP, SSE).

A connection knows JSON-RPC and its transport. It does not know MCP's eras (`era.py`), deadlines, limits or
life cycles (`pool.py`): cancelling the task that awaits `request` is how a deadline or a client ends a call,
and the connection then tells the upstream in the way its transport has for that.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from wicket_mcp import __version__
from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, MODERN_VERSION, JsonObject
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks

CLIENT_INFO: JsonObject = {"name": "wicket", "version": __version__}


def envelope(capabilities: JsonObject | None = None) -> JsonObject:
    """What every modern request carries in its `_meta`."""
    return {
        META_VERSION: MODERN_VERSION,
        META_CLIENT_INFO: CLIENT_INFO,
        META_CAPABILITIES: capabilities or {},
    }


class Host(Protocol):
    """Who owns a connection and hears what the upstream says unasked. Nothing here may block."""

    def notification(self, method: str, params: JsonObject) -> None:
        """A notification that belongs to no request of ours."""
        ...

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """A request by the upstream. The returned object is the result; WicketError becomes a JSON-RPC error."""
        ...

    def on_closed(self, reason: UpstreamError) -> None:
        """The connection is gone (never called for a close that we asked for)."""
        ...


class Connection(Protocol):
    """One open connection to one upstream."""

    @property
    def protocol_version(self) -> str:
        """Empty before it is negotiated."""
        ...

    def speak(self, version: str) -> None:
        """Use this version of the protocol from now on: HTTP names it in its headers."""
        ...

    @property
    def strays(self) -> int:
        """How much the upstream sent that is not a message, or fits nothing."""
        ...

    def stderr_tail(self) -> Sequence[str]:
        """The last lines that the upstream wrote on stderr, without secrets; none where it has no stderr."""
        ...

    @property
    def slowed(self) -> bool:
        """Whether the upstream talks so much that it is read more slowly."""
        ...

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Send one request and return its result.

        Raises Refused (a JSON-RPC error came back), Unavailable (nothing was sent), Crashed (the connection
        ended first) or ProtocolViolation. `callbacks` hear progress and logs that belong to this request, and are asked
        what the upstream asks on the way, where the transport ties that to a request; what it does not tie goes to
        the host. `headers` are extra HTTP headers; other transports ignore them.
        """
        ...

    async def notify(self, method: str, params: JsonObject | None = None) -> None: ...

    async def listen(self, resources: Sequence[str] = ()) -> None:
        """Hear unasked notifications from now on, and of changes to these resources in the modern era.

        Called after the era is negotiated, and again when `resources` changes. Without resources it returns at once;
        with some, when their changes are heard, or after a moment. Failure to listen is not an error.
        """
        ...

    async def close(self) -> None:
        """End it in good order, within a few seconds; never raises."""
        ...
