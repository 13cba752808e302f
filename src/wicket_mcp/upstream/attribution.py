"""Whose call a message is about that the transport ties to none: a log line or a question over a child's pipes.

It can be told only while one call is under way, and only on a connection that has served a single principal since it
was opened: what a server says a second later may still be about the principal before. Where it cannot be told, nobody
is asked and nobody hears it. Used by `supervisor.py`, which has one of these for each upstream.
"""

from wicket_mcp.errors import Unasked
from wicket_mcp.model import JsonObject
from wicket_mcp.request import GATEWAY
from wicket_mcp.upstream.connection import Callbacks


class Attribution:
    """The calls under way whose client can be notified and asked, and everybody the connection has served."""

    def __init__(
        self, server: str, *, one_client: bool, roots: JsonObject | None = None, withhold_roots: bool = False
    ) -> None:
        """`one_client` says that all calls are one client's: the server has a connection for each of them. `roots` are
        those of all the clients that it serves, where they are known to be the same; `withhold_roots` says that it
        works for many clients, and must not hear one's.
        """
        self._roots = roots
        self._withholds_roots = withhold_roots
        self._one_client = one_client
        self._server = server
        self._open: dict[int, tuple[Callbacks, str]] = {}
        """By identity, in the order in which they began."""
        self.served: set[str] = set()
        """Who has had something sent on the present connection."""

    def serve(self, principal: str) -> None:
        """Something is sent on behalf of somebody, who may hear nothing. Our own listings do not count."""
        if principal not in ("", GATEWAY.name):
            self.served.add(principal)

    def begin(self, callbacks: Callbacks, principal: str) -> None:
        self._open[id(callbacks)] = callbacks, principal

    def end(self, callbacks: Callbacks) -> None:
        del self._open[id(callbacks)]

    def renew(self) -> None:
        """There is another connection, which has heard of nobody but those who wait."""
        self.served = {principal for _, principal in self._open.values()}

    def sole(self) -> Callbacks | None:
        """The callbacks of the one call that a message can be about."""
        several = (len(self._open) > 1 and not self._one_client) or len(self.served) > 1
        return self._open[next(reversed(self._open))][0] if self._open and not several else None

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """A request of the server that is tied to no call. Raises Unasked."""
        name = self._server
        if method == "ping":
            return {}
        if method in ("initialize", "server/discover"):
            raise Unasked(f"'{name}' sends back what it is sent: it is not an MCP server.", hint="Check its command.")
        if method == "roots/list" and self._roots is not None:
            return self._roots
        if method == "roots/list" and self._withholds_roots:
            raise Unasked(
                f"Clients share '{name}': it works on no single one's roots.",
                hint=f"Give server '{name}' isolation = \"session\" to start one for each client.",
            )
        callbacks = self.sole()
        if callbacks is None or callbacks.request is None:
            raise Unasked(
                f"{self._doubt()} nobody knows which client '{name}' asks with {method}.",
                hint=f"Give server '{name}' isolation = \"session\" to tie its questions to a client.",
            )
        return await callbacks.request(method, params)

    def _doubt(self) -> str:
        if len(self._open) > 1:
            return f"{len(self._open)} calls are under way and"
        return "its connection has served several users, so" if self._open else "no call is under way, so"
