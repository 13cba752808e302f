"""Finds the call that a log line or question belongs to, if the transport does not say (a child's pipes).

This is possible only while a single call is running, and only on a connection that has served a single principal since
it was opened: a message may still be about the previous principal a second later. If the call is unknown, no client is
asked or notified. Used by `supervisor.py`, which has one of these for each upstream.
"""

from wicket_mcp.errors import Unasked
from wicket_mcp.model import JsonObject
from wicket_mcp.request import GATEWAY
from wicket_mcp.upstream.connection import Callbacks


class Attribution:
    """The running calls whose client can be notified and asked, and every principal that the connection has served."""

    def __init__(
        self, server: str, *, one_client: bool, roots: JsonObject | None = None, withhold_roots: bool = False
    ) -> None:
        """`one_client` means that all calls come from one client: the server has a connection for each client. `roots`
        are the roots of all clients that it serves, if they are known to be the same. `withhold_roots` means that it
        works for many clients and must not learn the roots of one.
        """
        self._roots = roots
        self._withholds_roots = withhold_roots
        self._one_client = one_client
        self._server = server
        self._open: dict[int, tuple[Callbacks, str]] = {}
        """By identity, in order of their start."""
        self.served: set[str] = set()
        """The principals for which something was sent on the current connection."""

    def serve(self, principal: str) -> None:
        """Record that something is sent for a principal who may receive no messages. Our own listings do not count."""
        if principal not in ("", GATEWAY.id):
            self.served.add(principal)

    def begin(self, callbacks: Callbacks, principal: str) -> None:
        self._open[id(callbacks)] = callbacks, principal

    def end(self, callbacks: Callbacks) -> None:
        del self._open[id(callbacks)]

    def renew(self) -> None:
        """A new connection exists, which has served only the principals of waiting calls."""
        self.served = {principal for _, principal in self._open.values()}

    def sole(self) -> Callbacks | None:
        """The callbacks of the only call that a message can belong to; None if that is unclear."""
        several = (len(self._open) > 1 and not self._one_client) or len(self.served) > 1
        return self._open[next(reversed(self._open))][0] if self._open and not several else None

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the server that is not tied to a call. Raises Unasked."""
        name = self._server
        if method == "ping":
            return {}
        if method in ("initialize", "server/discover"):
            raise Unasked(f"'{name}' sends back what it is sent: it is not an MCP server.", hint="Check its command.")
        if method == "roots/list" and self._roots is not None:
            return self._roots
        if method == "roots/list" and self._withholds_roots:
            raise Unasked(
                f"Clients share '{name}', so it gets the roots of none of them.",
                hint=f"Give server '{name}' isolation = \"session\" to start one for each client.",
            )
        callbacks = self.sole()
        if callbacks is None or callbacks.request is None:
            raise Unasked(
                f"{self._doubt()} it is unknown which client '{name}' asks with {method}.",
                hint=f"Give server '{name}' isolation = \"session\" to tie its questions to a client.",
            )
        return await callbacks.request(method, params)

    def _doubt(self) -> str:
        if len(self._open) > 1:
            return f"{len(self._open)} calls are under way and"
        return "its connection has served several users, so" if self._open else "no call is under way, so"
