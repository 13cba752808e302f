"""What a connection needs to know of credentials: which headers to send, and what to do when they are rejected.

Whose credentials they are, where they rest and how they are renewed is decided above (`identity/`): the pool is
given a `CredentialSource`, or none, and then servers are sent their configured headers alone.
"""

import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from wicket_mcp.config.model.config import ResolvedServer, ServerConfig
from wicket_mcp.model import Principal
from wicket_mcp.upstream.egress import Answer

_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:^|,\s*)(bearer|dpop)\b", re.IGNORECASE)

SHARED = "shared"
"""The owner of credentials that all principals use."""


class Challenge(msgspec.Struct, frozen=True):
    """What a server says in `WWW-Authenticate` when it wants a token, or a better one."""

    resource_metadata: str = ""
    scope: str = ""
    error: str = ""
    token: bool = False
    """Whether it asks for a bearer or DPoP token at all."""
    dpop: bool = False
    """Whether the token is to be bound to a key of ours."""

    @classmethod
    def read(cls, header: str) -> "Challenge":
        parameters = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(header)}
        schemes = [scheme.lower() for scheme in _SCHEME.findall(header.strip())]
        return cls(
            parameters.get("resource_metadata", ""),
            parameters.get("scope", ""),
            parameters.get("error", ""),
            token=bool(schemes),
            dpop="dpop" in schemes,
        )


class Credentials(Protocol):
    """The credentials of one owner for one server."""

    async def headers(self, verb: str, url: str, body: bytes | None = None) -> Mapping[str, str]:
        """What to send with this request. Raises NeedsSignIn, or SignInFailed."""
        ...

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str]) -> bool:
        """A request with the headers `sent` was answered with 401 or 403, so nothing was done: whether to send it
        again, with other headers. Raises NeedsSignIn, or SignInFailed.
        """
        ...


class CredentialSource(Protocol):
    """Who has the credentials of all servers."""

    def owner(self, config: ServerConfig, principal: Principal) -> str:
        """Whose credentials a request of `principal` uses."""
        ...

    def version(self, config: ServerConfig, principal: Principal) -> str:
        """Changes with every sign-in, so that no connection of an earlier account is used for a later one."""
        ...

    async def environment(self, config: ServerConfig, principal: Principal) -> Mapping[str, str]:
        """What a command is given besides its own environment. Raises NeedsSignIn."""
        ...

    async def find(self, server: ResolvedServer, url: str, principal: Principal) -> Credentials | None:
        """The credentials for a remote server; None where its configured headers say it all."""
        ...


def owner_of(config: ServerConfig, principal: Principal) -> str:
    return principal.name if config.credentials == "user" else SHARED
