"""What clients want from a server on every connection: changes of watched resources, and a log level.

A new connection is told what the previous one knew. Used by `supervisor.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from wicket_mcp.errors import Refused, WicketError
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
    refused: set[str] = msgspec.field(default_factory=set[str])
    """Watched resources that the upstream refuses on this connection."""
    changing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """One change at a time: the refusal of a subscription does not say which resource it is about."""

    async def watch(self, session: Session, uri: str, ask: Ask) -> None:
        """Subscribe to a resource too. Raises WicketError, and the others stay as they are."""
        async with self.changing:
            self.watched.add(uri)  # not before the session exists: a new session would subscribe to it again
            try:
                await self._watch(session, uri, ask)
            except WicketError:
                self.watched.discard(uri)
                raise

    async def _watch(self, session: Session, uri: str, ask: Ask) -> None:
        if not session.greeting.modern:
            if _offers_subscriptions(session):
                await session.connection.listen(sorted(self.watched))
                await ask("resources/subscribe", {"uri": uri})
            return
        self.refused.discard(uri)
        try:
            await session.connection.listen(self._accepted)
        except Refused:  # of the whole subscription, which ended the earlier one
            self.watched.discard(uri)
            await self._listen(session)
            raise

    def forget(self, uri: str) -> bool:
        """A resource is not watched any more; whether it was."""
        was_watched = uri in self.watched
        self.watched.discard(uri)
        return was_watched

    async def unwatch(self, session: Session, uri: str, ask: Ask) -> None:
        if session.greeting.modern:
            async with self.changing:
                await self._listen(session)
        elif _offers_subscriptions(session):
            with suppress(WicketError):  # then it keeps sending changes that no one reads
                await ask("resources/unsubscribe", {"uri": uri})

    async def renew(self, session: Session) -> None:
        """Subscribe to all watched resources on a new connection, without those that the upstream refuses now."""
        async with self.changing:
            self.refused.clear()
            if session.greeting.modern:
                await self._listen(session)
                return
            for uri in sorted(self.watched):
                try:
                    await session.request("resources/subscribe", {"uri": uri})
                except WicketError as problem:
                    log.info("server '%s' did not subscribe to %s again: %s", self.server, uri, problem)

    @property
    def _accepted(self) -> list[str]:
        return sorted(self.watched - self.refused)

    async def _listen(self, session: Session) -> None:
        """Subscribe to what the upstream accepts: if it refuses the whole, to one resource more at a time."""
        resources = self._accepted
        try:
            await session.connection.listen(resources)
            return
        except Refused as problem:
            log.info("server '%s' did not subscribe to all resources again: %s", self.server, problem)
        accepted: list[str] = []
        for uri in resources:
            try:
                await session.connection.listen([*accepted, uri])
                accepted.append(uri)
            except Refused:
                self.refused.add(uri)
        if resources[-1] in self.refused:
            with suppress(Refused):
                await session.connection.listen(accepted)

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
