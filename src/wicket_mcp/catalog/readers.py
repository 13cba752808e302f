"""On whose behalf a server is listed: Wicket's own, or a user's if each user has an account there.

Remembers the users who may be able to list it, the latest last, and who still waits for a listing of their own: one
that is under way for another account is not theirs. The catalogue reads for those who wait, in their order.
"""

from collections.abc import Mapping

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import LOCAL, Listing, Principal, name_of
from wicket_mcp.request import GATEWAY

MOST = 32
"""Remembered users per server."""


class Readers:
    """The users who may have an account, by server. A user is known by `id`, whatever else has changed."""

    def __init__(self) -> None:
        self._offered: dict[str, list[Principal]] = {}
        self._waiting: dict[str, dict[str, Principal]] = {}
        self._current: dict[str, str] = {}
        self.holders: dict[str, str] = {}
        """Who holds the API key of each name, if that is known."""

    def hand_over(self, owner: str) -> Mapping[str, str]:
        """`owner` has their name now: no server is listed on behalf of an earlier key of this name any more.

        Returns who holds each name.
        """
        self.holders[name_of(owner)] = owner
        for server, offered in self._offered.items():
            self._offered[server] = [reader for reader in offered if self._is_present(reader)]
        return self.holders

    def _is_present(self, reader: Principal) -> bool:
        return self.holders.get(name_of(reader.id), reader.id) == reader.id

    def offer(self, config: ServerConfig | None, principal: Principal) -> None:
        """Add a user who may have an account at a server: one who needs its listing, or is connected to it."""
        if config is not None and config.credentials == "user" and self._is_present(principal):
            others = [reader for reader in self._offered.get(config.name, ()) if reader.id != principal.id]
            self._offered[config.name] = [*others[-MOST:], principal]

    def request(self, config: ServerConfig, principal: Principal) -> str:
        """Ask for a listing on behalf of `principal` that begins after now; returns the name that `awaits` takes."""
        self.offer(config, principal)
        reader = principal if config.credentials == "user" else GATEWAY
        self._waiting.setdefault(config.name, {})[reader.id] = reader
        return reader.id

    def request_first(self, config: ServerConfig, principal: Principal) -> str:
        """As `request`, but a listing that is under way for `principal` will do."""
        reader = principal.id if config.credentials == "user" else GATEWAY.id
        return reader if self._current.get(config.name) == reader else self.request(config, principal)

    def awaits(self, server: str, reader: str = "") -> bool:
        """Whether a listing that `reader` (or anybody) asked for has not begun."""
        waiting = self._waiting.get(server, ())
        return reader in waiting if reader else bool(waiting)

    def begin(self, config: ServerConfig) -> Principal:
        """The principal for which the server is listed now."""
        waiting = self._waiting.pop(config.name, {})
        if config.credentials != "user":
            reader = GATEWAY
        else:
            waiting.pop(GATEWAY.id, None)  # from before each user had an account
            if waiting:
                reader = waiting.pop(next(iter(waiting)))
            else:
                reader = next(reversed(self._offered.get(config.name, ())), LOCAL)
            if waiting:
                self._waiting[config.name] = waiting
        self._current[config.name] = reader.id
        return reader

    def end(self, server: str) -> None:
        """No listing of the server is under way any more."""
        self._current.pop(server, None)

    def forget(self, server: str) -> None:
        """The server is gone: nobody waits for it any more."""
        self._waiting.pop(server, None)

    def dismiss(self, server: str, reader: Principal) -> bool:
        """A user has no account after all; whether there is another one to try."""
        self._offered[server] = [other for other in self._offered.get(server, ()) if other.id != reader.id]
        return bool(self._offered[server])

    def unread(self, listing: Listing) -> list[Principal]:
        """Users whose own list has not been read yet."""
        return [reader for reader in self._offered.get(listing.server, ()) if reader.id not in listing.accounts]
