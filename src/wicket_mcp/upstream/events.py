"""What an upstream reports beside its answers. Made by `unattributed.py` and `pool.py`, heard by `app.py`."""

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
    audience: str | None = None
    """Of a notification of an unknown extension: the only principal that may be told; empty for all that see the
    server. None for every other event.
    """


OnEvent = Callable[[UpstreamEvent], None]
