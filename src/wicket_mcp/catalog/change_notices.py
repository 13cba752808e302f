"""What servers say with `list_changed` that Wicket does not know: kept until the list is read, then told to clients.

Wicket notifies clients itself, after it has read the new list and once for many changes. The fields of the servers'
notifications are combined in it as those of their lists are (`list_fields.py`). `app.py` notes them, `surface/feed.py`
carries them. Pure.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

from wicket_mcp.catalog.list_fields import Pages, combine, exceeds
from wicket_mcp.model import META_SUBSCRIPTION, JsonObject, ListKind, as_object
from wicket_mcp.upstream.announcements import HEARD_AT
from wicket_mcp.upstream.events import UpstreamEvent

_OURS = frozenset({META_SUBSCRIPTION, HEARD_AT})
KEPT = 8
"""Notifications of one list of one server, the latest ones."""


class Notice(NamedTuple):
    """The unknown fields of one notification."""

    server: str
    owner: str
    """The only principal that may be told; empty for all that see the server."""
    kind: ListKind
    fields: JsonObject


class ChangeNotices:
    """The notices of lists that are not read yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Notice]] = {}

    def hear(self, event: UpstreamEvent, *, shared: bool) -> None:
        """A server sent `list_changed`, over a connection that all its users share or that is one user's."""
        fields = {name: value for name, value in event.params.items() if name != "_meta"}
        meta = {name: v for name, v in as_object(event.params.get("_meta")).items() if name not in _OURS}
        fields |= {"_meta": meta} if meta else {}
        if fields and not exceeds([fields]):
            kind = cast("ListKind", event.method.removeprefix("notifications/").removesuffix("/list_changed"))
            notice = Notice(event.server, "" if shared else event.principal.id, kind, fields)
            waiting = self._waiting.setdefault(event.server, [])
            waiting.append(notice)
            if len(earlier := [other for other in waiting if other.kind == kind]) > KEPT:
                waiting.remove(earlier[0])

    def take(self, servers: Iterable[str]) -> list[Notice]:
        """The notices of servers whose lists have been read."""
        return [notice for server in servers for notice in self._waiting.pop(server, ())]


def combine_notices(notices: Iterable[Notice], kind: ListKind, may_hear: Callable[[Notice], bool]) -> JsonObject:
    """The fields of one notification that is made of these."""
    by_server: dict[str, Pages] = {}
    for notice in notices:
        if notice.kind == kind and may_hear(notice):
            by_server[notice.server] = (*by_server.get(notice.server, ()), notice.fields)
    return combine(by_server)
