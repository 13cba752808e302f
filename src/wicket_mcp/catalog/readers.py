"""On whose behalf a server is listed: Wicket's own, or a user's if each user has an account there.

Remembers the users who may be able to list it, the latest last; the catalogue tries them.
"""

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import LOCAL, Listing, Principal
from wicket_mcp.request import GATEWAY

MOST = 32
"""Remembered users per server."""


class Readers:
    """The users who may have an account, by server."""

    def __init__(self) -> None:
        self._offered: dict[str, list[Principal]] = {}

    def offer(self, config: ServerConfig | None, principal: Principal) -> None:
        """Add a user who may have an account at a server: one who needs its listing, or is connected to it."""
        if config is not None and config.credentials == "user":
            others = [reader for reader in self._offered.get(config.name, ()) if reader != principal]
            self._offered[config.name] = [*others[-MOST:], principal]

    def choose(self, config: ServerConfig | None) -> Principal:
        """The principal for which the server is listed next."""
        if config is None or config.credentials != "user":
            return GATEWAY
        readers = self._offered.get(config.name)
        return readers[-1] if readers else LOCAL

    def dismiss(self, server: str, reader: Principal) -> bool:
        """A user has no account after all; whether there is another one to try."""
        self._offered[server] = [other for other in self._offered.get(server, ()) if other != reader]
        return bool(self._offered[server])

    def unread(self, listing: Listing) -> list[Principal]:
        """Users whose own list has not been read yet."""
        return [reader for reader in self._offered.get(listing.server, ()) if reader.name not in listing.accounts]
