"""On whose behalf a server is asked what it offers: Wicket's own, or a user's where each has an account there.

Remembers who may be able to ask, the latest last; whether they can is found out by the catalogue, which asks.
"""

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import LOCAL, Listing, Principal
from wicket_mcp.request import GATEWAY

MOST = 32
"""Users of one server that are remembered."""


class Readers:
    """Those who may have an account, by server."""

    def __init__(self) -> None:
        self._offered: dict[str, list[Principal]] = {}

    def offer(self, config: ServerConfig | None, principal: Principal) -> None:
        """Somebody who may have an account at a server wants to know what it offers, or is connected to it."""
        if config is not None and config.credentials == "user":
            others = [reader for reader in self._offered.get(config.name, ()) if reader != principal]
            self._offered[config.name] = [*others[-MOST:], principal]

    def choose(self, config: ServerConfig | None) -> Principal:
        """On whose behalf the server is asked next."""
        if config is None or config.credentials != "user":
            return GATEWAY
        readers = self._offered.get(config.name)
        return readers[-1] if readers else LOCAL

    def dismiss(self, server: str, reader: Principal) -> bool:
        """Somebody has no account after all; whether there is somebody else to try."""
        self._offered[server] = [other for other in self._offered.get(server, ()) if other != reader]
        return bool(self._offered[server])

    def unread(self, listing: Listing) -> list[Principal]:
        """Those whose own list has not been read yet."""
        return [reader for reader in self._offered.get(listing.server, ()) if reader.name not in listing.accounts]
