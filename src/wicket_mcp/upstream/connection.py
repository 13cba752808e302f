"""What the pool needs from a connection, for every transport (a child's pipes, HTTP, SSE).

A connection knows JSON-RPC and its transport. It does not know MCP's eras (`era.py`), deadlines, limits or life cycles
(`pool.py`): a deadline or a client ends a call by cancelling the task that awaits `request`, and the connection then
tells the upstream in its transport's way.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from wicket_mcp import __version__
from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, MODERN_VERSION, JsonObject, Principal
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
    """The owner of a connection, which receives unsolicited messages from the upstream. Nothing here may block."""

    @property
    def fails_often(self) -> bool:
        """Whether the connections before this one failed several times in a row."""
        ...

    @property
    def is_called(self) -> bool:
        """Whether a call is in flight, or waits for the connection."""
        ...

    def notification(self, method: str, params: JsonObject) -> None:
        """A notification that belongs to no request of ours."""
        ...

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """A request by the upstream. The returned object is the result; WicketError becomes a JSON-RPC error."""
        ...

    def on_closed(self, reason: UpstreamError) -> None:
        """The connection has ended (not called when we closed it ourselves)."""
        ...


class Versioned:
    """The part of a Connection that is the same for every transport: the protocol version."""

    _version = ""
    _relayed: JsonObject | None = None

    @property
    def protocol_version(self) -> str:
        return self._version

    @property
    def relayed(self) -> JsonObject | None:
        return self._relayed

    def speak(self, version: str, relayed: JsonObject | None = None) -> None:
        self._version, self._relayed = version, relayed


class Connection(Protocol):
    """One open connection to one upstream."""

    @property
    def protocol_version(self) -> str:
        """Empty until it is negotiated."""
        ...

    @property
    def relayed(self) -> JsonObject | None:
        """Extensions of the upstream whose notifications we pass on to clients."""
        ...

    def speak(self, version: str, relayed: JsonObject | None = None) -> None:
        """Use this protocol version from now on: HTTP sends it in its headers."""
        ...

    @property
    def strays(self) -> int:
        """How many inputs from the upstream were not messages or matched no request."""
        ...

    def stderr_tail(self) -> Sequence[str]:
        """The last lines that the upstream wrote to stderr, without secrets; empty if it has no stderr."""
        ...

    @property
    def slowed(self) -> bool:
        """Whether the upstream sends so much that it is read more slowly."""
        ...

    def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> Awaitable[JsonObject]:
        """Send one request; its result.

        Raises Refused (a JSON-RPC error came back), Unavailable (nothing was sent), Crashed (the connection ended
        first) or ProtocolViolation. `callbacks` receive the progress, logs and questions that the transport ties to
        this request; all others go to the host. `headers` are extra HTTP headers; other transports ignore them.
        """
        ...

    async def notify(
        self, method: str, params: JsonObject | None = None, principal: Principal | None = None
    ) -> None: ...

    async def listen(self, resources: Sequence[str] = ()) -> None:
        """Receive unsolicited notifications from now on and, in the modern era, changes to these resources.

        Called after the era is negotiated, and again when `resources` changes. Without resources it returns at once;
        with resources, once the subscription is active or after a short wait. Failure to listen is not an error, but
        a server's refusal of these resources is: Refused is raised, and nothing is subscribed to any more.
        """
        ...

    async def close(self) -> None:
        """Close cleanly, within a few seconds; never raises."""
        ...
