"""What a connection needs to know about credentials: which headers to send, and what to do if they are rejected.

`identity/` decides whose credentials they are, where they are stored and how they are renewed. The pool gets a
`CredentialSource` or none; without one, servers get only their configured headers.
"""

import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from wicket_mcp.config.model.config import ResolvedServer, ServerConfig
from wicket_mcp.model import Principal
from wicket_mcp.upstream.egress import Answer

_PARAMETER = re.compile(r'(?<![A-Za-z_])([A-Za-z_]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,"]++))')
_SCHEME = re.compile(r"(?:^|,\s*+)(bearer|dpop)\b", re.IGNORECASE)

SHARED = "shared"
"""The owner of credentials that all principals use."""


class Challenge(msgspec.Struct, frozen=True):
    """The `WWW-Authenticate` of a server that wants a token, or a better one."""

    resource_metadata: str = ""
    scope: str = ""
    error: str = ""
    token: bool = False
    """Whether it asks for a bearer or DPoP token at all."""
    dpop: bool = False
    """Whether the token must be bound to a key of ours."""

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
        """The headers for this request. Raises NeedsSignIn, or SignInFailed."""
        ...

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str], *, final: bool = False) -> bool:
        """A request with the headers `sent` was answered with 401 or 403, so nothing was done. Returns whether to send
        it again with new headers; if this was the `final` attempt, it is not sent again. Raises NeedsSignIn, or
        SignInFailed.
        """
        ...


class CredentialSource(Protocol):
    """Holds the credentials of all servers."""

    def owner(self, config: ServerConfig, principal: Principal) -> str:
        """The owner of the credentials that a request of `principal` uses."""
        ...

    def version(self, config: ServerConfig, principal: Principal) -> str:
        """Changes with every sign-in, so that a connection of an earlier account is not used for a later one."""
        ...

    async def environment(self, config: ServerConfig, principal: Principal) -> Mapping[str, str]:
        """The variables that a command gets in addition to its own environment. Raises NeedsSignIn."""
        ...

    async def find(self, server: ResolvedServer, url: str, principal: Principal) -> Credentials | None:
        """The credentials for a remote server; None if its configured headers are enough."""
        ...


def owner_of(config: ServerConfig, principal: Principal) -> str:
    return principal.id if config.credentials == "user" else SHARED
