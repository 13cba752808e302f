"""How busy a server is, for metrics and status: the sum over its upstreams. Asked by `pool.py`."""

from collections.abc import Sequence
from typing import NamedTuple

from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.owner import OwnerLink
from wicket_mcp.upstream.supervisor import Upstream


class Load(NamedTuple):
    """The activity at one server."""

    server: str
    state: State
    calls: int
    waiting: int
    restarts: int
    """Those of connections that are gone too: it never falls."""
    relayed: bool
    """Whether all its connections lead to another gateway, which runs it."""
    hint: str
    """What to do about its last problem; empty if nobody knows."""


def measure(server: str, state: State, upstreams: Sequence[Upstream], restarts: int) -> Load:
    connections = [upstream.connection for upstream in upstreams if upstream.connection is not None]
    return Load(
        server,
        state,
        calls=sum(upstream.calls for upstream in upstreams),
        waiting=sum(upstream.waiting for upstream in upstreams),
        restarts=restarts,
        relayed=bool(connections) and all(isinstance(connection, OwnerLink) for connection in connections),
        hint=next((upstream.hint for upstream in upstreams if upstream.hint), ""),
    )
