"""The log of one server's life: a line for each change of state that a person would want to know, and no more.

What a server that cannot start said is logged by whoever needed it (the catalogue, once for each reason). Used by the
supervisor.
"""

import logging
from typing import Any

from wicket_mcp.upstream.lifecycle import Life, State

log = logging.getLogger(__name__)


class StateLog:
    """Remembers what was logged last."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._last: State | None = None

    def note(self, life: "Life[Any]") -> None:
        state = life.state
        if state is self._last or state not in (State.READY, State.IDLE, State.BROKEN):
            return
        if state is State.BROKEN:
            log.info("server '%s' failed %d times in a row: %s", self._server, life.failures, life.problem)
        elif state is State.READY or self._last is State.READY:
            log.info("server '%s' is %s", self._server, state)
        self._last = state
