"""Which requests share an upstream: those with the same key. The only place that decides it; `pool.py` uses it."""

from functools import lru_cache
from typing import NamedTuple

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import Principal
from wicket_mcp.upstream.credentials import CredentialSource


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


def key_of(config: ServerConfig, principal: Principal, session: str, source: CredentialSource | None = None) -> Key:
    """The only place that decides which clients share an upstream."""
    own = config.credentials == "user"
    # A command that all clients share has no account to sign in to.
    signed_in = source is not None and (own or config.url is not None)
    per_user = "user" in (config.credentials, config.placement)  # `is_per_user`, on every call
    if not (signed_in or per_user or config.isolation == "session"):
        return _shared_key(config.name)
    return Key(
        config.name,
        session if config.isolation == "session" else "",
        principal.name if per_user else "",
        source.version(config, principal) if source is not None and signed_in else "",
    )


@lru_cache(1024)
def _shared_key(server: str) -> Key:
    return Key(server, "")
