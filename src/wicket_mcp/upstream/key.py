"""What tells the connections to servers apart. `pool.py` decides which requests have the same key."""

from functools import lru_cache
from typing import NamedTuple


class Key(NamedTuple):
    """Requests with the same key are sent over the same connection."""

    server: str
    session: str
    """Empty if all clients share the connection."""
    owner: str = ""
    """The owner of the credentials, if each user has their own; empty if they are shared."""
    version: str = ""
    """The version of the credentials: a connection from before a sign-in is not used after it."""
    roots: str = ""
    """Identifies the roots of the clients that share the connection; empty if they have none."""
    extensions: str = ""
    """Identifies the extensions that a legacy server was told of; empty for our own."""


@lru_cache(1024)
def shared_key(server: str) -> Key:
    """The key of a connection that all clients share."""
    return Key(server, "")
