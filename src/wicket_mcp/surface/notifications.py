"""Notifications from clients that Wicket does not know: they are forwarded to the server that they concern.

The same rule as for unknown methods (`calls/resolve.py`): the server whose tool, prompt or resource is named, or the
only server with an unknown extension. A notification needs no answer, so one that concerns no server is dropped. Called
by both transports; knows neither.
"""

import logging
from typing import TYPE_CHECKING

from wicket_mcp.errors import WicketError
from wicket_mcp.extensions import PROTOCOL_EVENTS
from wicket_mcp.model import Caller, JsonObject, as_object

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol

log = logging.getLogger(__name__)


def concerns_server(method: str) -> bool:
    """Whether a notification is for a server rather than for us."""
    return method not in PROTOCOL_EVENTS


async def pass_on(protocol: "Protocol", body: JsonObject, caller: Caller) -> None:
    """Forward a notification. Raises nothing."""
    params = as_object(body.get("params"))
    try:
        await protocol.verbs.pass_on(body["method"], params, caller, as_object(params.get("_meta")), notification=True)
    except WicketError as problem:
        log.debug("the notification %s was not passed on: %s", body["method"], problem)
