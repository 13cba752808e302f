"""What clients want of a server on every connection to it: changes of resources they watch, and a log level.

A connection that is made again is told what the one before it knew. Used by `supervisor.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from wicket_mcp.errors import WicketError
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.upstream.era import Session

log = logging.getLogger(__name__)

LOG_LEVEL_TIMEOUT = 2.0  # seconds that an upstream may take to note a log level

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Sends one request to the upstream under its limits."""


class Wishes(msgspec.Struct):
    """See the module's docstring."""

    server: str
    watched: set[str]
    """Addresses of resources."""
    log_level: str

    async def watch(self, session: Session, uri: str, ask: Ask) -> None:
        self.watched.add(uri)  # not before there is a session: one that is made meanwhile would subscribe to it too
        if session.greeting.modern or _offers_subscriptions(session):
            await session.connection.listen(sorted(self.watched))
        if not session.greeting.modern and _offers_subscriptions(session):
            await ask("resources/subscribe", {"uri": uri})

    async def unwatch(self, session: Session, uri: str, ask: Ask) -> None:
        with suppress(WicketError):  # then it goes on to send what nobody reads
            if session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
            elif _offers_subscriptions(session):
                await ask("resources/unsubscribe", {"uri": uri})

    async def renew(self, session: Session) -> None:
        """Subscribe to what somebody watches. An upstream that refuses is left as it is."""
        try:
            if session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
                return
            for uri in sorted(self.watched):
                await session.request("resources/subscribe", {"uri": uri})
        except WicketError as problem:
            log.info("server '%s' did not subscribe to resources again: %s", self.server, problem)

    async def want_logs(self, level: str, session: Session | None) -> None:
        """From this level on: of the present session, where there is one, and of all later ones."""
        self.log_level = level
        if session is not None:
            await self.send_log_level(session)

    async def send_log_level(self, session: Session) -> None:
        """Tell a legacy upstream what to log, before the calls whose log it is; but do not wait for long."""
        if not self.log_level or session.greeting.modern or "logging" not in session.greeting.capabilities:
            return
        try:
            async with asyncio.timeout(LOG_LEVEL_TIMEOUT):
                await session.request("logging/setLevel", {"level": self.log_level})
        except (WicketError, TimeoutError) as problem:
            log.info("server '%s' did not take the log level: %r", self.server, problem)


def _offers_subscriptions(session: Session) -> bool:
    return bool(as_object(session.greeting.capabilities.get("resources")).get("subscribe"))
