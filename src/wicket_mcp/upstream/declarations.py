"""Which extensions a server is told of on behalf of the client of a request.

A modern server learns them with every request. A legacy server learns them once, when a connection begins: one that
uses extensions therefore has a connection for each set of them that its clients declare. All other servers have one
connection, on which we declare our own. Used by `pool.py`, which knows the connections.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from wicket_mcp.codec import canonical
from wicket_mcp.extensions import AS_CLIENT, narrow_extensions, spoken_extensions
from wicket_mcp.model import MODERN_VERSION, JsonObject, Listing

MOST = 16  # connections to one server that differ in the extensions of their clients


class Spoken(NamedTuple):
    """The extensions that a server uses, as its listing shows them."""

    identifiers: frozenset[str]
    legacy: bool


class Declared(NamedTuple):
    """What a connection declares instead of our own extensions."""

    mark: str
    """The same for the same extensions."""
    extensions: JsonObject


class Declarations:
    """The servers that use extensions. Most gateways have none, and then nothing is compared."""

    def __init__(self) -> None:
        self.spoken: Mapping[str, Spoken] = {}
        self._read: dict[str, tuple[Listing, Spoken]] = {}

    def renew(self, listings: Mapping[str, Listing]) -> None:
        """Some listings have changed; each is looked through once."""
        before, self._read = self._read, {}
        for name, listing in listings.items():
            known = before.get(name)
            self._read[name] = known if known is not None and known[0] is listing else (listing, _read(listing))
        self.spoken = {name: spoken for name, (_, spoken) in self._read.items() if spoken.identifiers}

    def choose(self, server: str, capabilities: JsonObject, *, modern: bool | None) -> Declared | None:
        """What the connection for a client with these capabilities declares; None for the common connection.

        `modern` is the era of the common connection, None if it is not open.
        """
        spoken = self.spoken[server]
        if modern or (modern is None and not spoken.legacy):
            return None
        declared = narrow_extensions(capabilities, spoken.identifiers)
        if declared == narrow_extensions(AS_CLIENT, spoken.identifiers):
            return None
        return Declared(hashlib.blake2b(canonical(declared), digest_size=12).hexdigest(), declared)


def _read(listing: Listing) -> Spoken:
    identifiers = spoken_extensions(listing.capabilities, (tool.definition for tool in listing.tools))
    return Spoken(identifiers, legacy=listing.protocol_version != MODERN_VERSION)
