"""What an upstream reports beside its answers. Made by `supervisor.py` and `pool.py`, heard by the composition root."""

from collections.abc import Callable

import msgspec

from wicket_mcp.model import LOCAL, JsonObject, Principal


class UpstreamEvent(msgspec.Struct, frozen=True):
    """A notification that belongs to no call, or `connected` and `disconnected` when a connection has changed."""

    server: str
    session: str
    """The only client session that the upstream serves; empty if it is shared."""
    method: str
    params: JsonObject
    principal: Principal = LOCAL
    """The principal for which the upstream was connected."""


OnEvent = Callable[[UpstreamEvent], None]
