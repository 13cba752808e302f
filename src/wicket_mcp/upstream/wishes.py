"""What clients want from a server on every connection: changes of watched resources, and a log level.

A new connection is told what the previous one knew. Used by `supervisor.py`.
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

LOG_LEVEL_TIMEOUT = 2.0  # seconds for an upstream to set a log level

Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Sends one request to the upstream under its limits."""


class Wishes(msgspec.Struct):
    """See the module's docstring."""

    server: str
    watched: set[str]
    """Addresses of resources."""
    log_level: str

    async def watch(self, session: Session, uri: str, ask: Ask) -> None:
        self.watched.add(uri)  # not before the session exists: a new session would subscribe to it again
        if session.greeting.modern or _offers_subscriptions(session):
            await session.connection.listen(sorted(self.watched))
        if not session.greeting.modern and _offers_subscriptions(session):
            await ask("resources/subscribe", {"uri": uri})

    async def unwatch(self, session: Session, uri: str, ask: Ask) -> None:
        with suppress(WicketError):  # then it keeps sending changes that no one reads
            if session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
            elif _offers_subscriptions(session):
                await ask("resources/unsubscribe", {"uri": uri})

    async def renew(self, session: Session) -> None:
        """Subscribe to all watched resources. A refusal by the upstream is ignored."""
        try:
            if session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
                return
            for uri in sorted(self.watched):
                await session.request("resources/subscribe", {"uri": uri})
        except WicketError as problem:
            log.info("server '%s' did not subscribe to resources again: %s", self.server, problem)

    async def want_logs(self, level: str, session: Session | None) -> None:
        """Use this log level for the current session, if there is one, and for all later ones."""
        self.log_level = level
        if session is not None:
            await self.send_log_level(session)

    async def send_log_level(self, session: Session) -> None:
        """Send the log level to a legacy upstream before the calls that need it, but do not wait long."""
        if not self.log_level or session.greeting.modern or "logging" not in session.greeting.capabilities:
            return
        try:
            async with asyncio.timeout(LOG_LEVEL_TIMEOUT):
                await session.request("logging/setLevel", {"level": self.log_level})
        except (WicketError, TimeoutError) as problem:
            log.info("server '%s' did not take the log level: %r", self.server, problem)


def _offers_subscriptions(session: Session) -> bool:
    return bool(as_object(session.greeting.capabilities.get("resources")).get("subscribe"))
