"""What a server says beside its answers: passed to the one call that it can belong to, else reported as an event.

What belongs to no call may be about anybody, so only the gateway's owner sees a log message, and a notification of an
unknown extension goes to whom `announcements.py` allows. Created by `supervisor.py`; knows no connection.
"""

import asyncio
import logging

from wicket_mcp.extensions import PROTOCOL_EVENTS
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.rpc import CONNECTION_WIDE
from wicket_mcp.telemetry.redact import Redactor
from wicket_mcp.upstream.announcements import read_announcement
from wicket_mcp.upstream.attribution import Attribution
from wicket_mcp.upstream.events import OnEvent, UpstreamEvent
from wicket_mcp.upstream.throttle import Quota

log = logging.getLogger(__name__)
_show = Redactor()


class Unattributed:
    """The notifications of one upstream."""

    def __init__(
        self, server: str, session: str, principal: Principal, attribution: Attribution, on_event: OnEvent
    ) -> None:
        self._server, self._session, self._principal = server, session, principal
        self._attribution, self._on_event = attribution, on_event
        self._messages = Quota()

    def report(self, method: str, params: JsonObject, audience: str | None = None) -> None:
        self._on_event(UpstreamEvent(self._server, self._session, method, params, self._principal, audience))

    def take(self, method: str, params: JsonObject, *, from_gateway: bool) -> None:
        """`from_gateway` says whether another gateway runs the server for us."""
        if method in CONNECTION_WIDE:
            self.report(method, params)
        elif (callbacks := self._attribution.sole()) and callbacks.notification:
            callbacks.notification(method, params)
        elif method not in PROTOCOL_EVENTS:
            audience, body = read_announcement(params, self._attribution.served, from_gateway=from_gateway)
            if audience is not None:
                self.report(method, body, audience)
        elif method == "notifications/message" and self._messages.take(asyncio.get_running_loop().time()):
            text = _show(str(params.get("data")), 300)
            log.info("server '%s' says (%s): %s", self._server, params.get("level"), text)
            self.report(method, {"level": _show(str(params.get("level")), 20), "data": text})
