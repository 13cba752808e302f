"""The public keys of one issuer: found through its metadata, cached, and fetched again for an unknown key.

Nothing is fetched before a token needs it. However many tokens name unknown keys, the issuer is asked at most once a
minute; while it cannot be reached, the known keys stay valid. Does not check tokens itself.
"""

import asyncio
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.errors import Unavailable
from wicket_mcp.identity.documents import Documents, Unreadable
from wicket_mcp.model import JsonObject, as_list, as_object, as_text

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    Key = RSAKey | ECKey | OKPKey

REFETCH = 60.0
"""Seconds before an unknown key makes us fetch the keys again."""
RETRY = 5.0
"""The same, while no key is known because the issuer could not be reached."""
STALE = 3600.0
"""Seconds after which the keys are fetched again, so that a withdrawn key becomes invalid."""
MAX_KEYS = 100

_FITS = {
    "RS": {"kty": ("RSA",)},
    "PS": {"kty": ("RSA",)},
    "ES256": {"kty": ("EC",), "crv": ("P-256",)},
    "ES384": {"kty": ("EC",), "crv": ("P-384",)},
    "ES512": {"kty": ("EC",), "crv": ("P-521",)},
    "Ed": {"kty": ("OKP",), "crv": ("Ed25519", "Ed448")},
}


class Keys:
    """The keys of one issuer."""

    def __init__(self, config: IssuerConfig, documents: Documents, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._documents = documents
        self._clock = clock
        self._keys: list[_Published] = []
        self._fetched: float | None = None
        self._next = 0.0
        self._fetching = asyncio.Lock()
        self._where = config.jwks

    async def find(self, kid: str | None, algorithm: str) -> list["Key"]:
        """The keys that may have signed a token with this header. Raises Unavailable if no key is known yet."""
        if self._needs_fetch(kid):
            async with self._fetching:
                if self._needs_fetch(kid) and self._clock() >= self._next:
                    await self._fetch()
        if self._fetched is None:
            raise Unavailable(
                "identity", f"The keys of {self._config.issuer} cannot be read now.", hint="Try again in a minute."
            )
        fitting = [key for key in self._keys if _fits(key.fields, algorithm) and kid in (None, key.fields.get("kid"))]
        return [known for key in fitting if (known := key.imported) is not None]

    def _needs_fetch(self, kid: str | None) -> bool:
        if self._fetched is None or self._clock() >= self._fetched + STALE:
            return True
        return kid is not None and all(as_text(key.fields.get("kid")) != kid for key in self._keys)

    async def _fetch(self) -> None:
        try:
            if self._where is None:
                self._where = await self._discover()
            document = await self._documents.get(self._where)
        except Unreadable:
            self._where = self._config.jwks  # the next attempt asks again where the keys are
            if self._fetched is None:
                raise
            self._next = self._clock() + REFETCH
            return
        finally:
            self._next = max(self._next, self._clock() + RETRY)
        self._keys = [_Published(as_object(key)) for key in as_list(document.get("keys"))[:MAX_KEYS]]
        self._fetched = self._clock()
        self._next = self._fetched + REFETCH

    async def _discover(self) -> str:
        """Where the keys are, from the issuer's metadata. Raises Unreadable."""
        return as_text((await read_metadata(self._config.issuer, self._documents))["jwks_uri"])


class _Published:
    """One key of an issuer's document."""

    def __init__(self, fields: JsonObject) -> None:
        self.fields = fields

    @cached_property
    def imported(self) -> "Key | None":
        """The key as an object of the library; None if it is invalid."""
        from joserfc.errors import JoseError  # noqa: PLC0415  (70 ms, for those who accept tokens)
        from joserfc.jwk import import_key  # noqa: PLC0415

        public: dict[str, Any] = {name: value for name, value in self.fields.items() if name in _PUBLIC}
        try:
            known: Any = import_key(public)
            return known
        except (JoseError, ValueError, TypeError):
            return None


_PUBLIC = frozenset({"kty", "crv", "x", "y", "n", "e", "kid"})


async def read_metadata(issuer: str, documents: Documents) -> JsonObject:
    """An issuer's metadata, from the first address that names its keys. Raises Unreadable."""
    problem = Unreadable(issuer, "has no metadata")
    for url in metadata_addresses(issuer):
        try:
            document = await documents.get(url)
        except Unreadable as missing:
            problem = missing
            if missing.status in (404, 410, 405):
                continue
            raise
        if document.get("issuer") != issuer:
            raise Unreadable(url, "is the metadata of another issuer; http.issuers.issuer must be equal to its own")
        if as_text(document.get("jwks_uri")):
            return document
        problem = Unreadable(url, "names no jwks_uri")
    raise problem


def metadata_addresses(issuer: str) -> tuple[str, str]:
    """Where an issuer's metadata may be: OpenID Connect Discovery, then RFC 8414."""
    split = urlsplit(issuer)
    path = split.path.rstrip("/")
    inserted = split._replace(path=f"/.well-known/oauth-authorization-server{path}", query="", fragment="")
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration", inserted.geturl()


def _fits(key: JsonObject, algorithm: str) -> bool:
    """Whether a key is meant for signatures of this algorithm."""
    needed = _FITS.get(algorithm) or _FITS.get(algorithm[:2], {})
    declared = as_text(key.get("alg"))
    alike = not declared or declared == algorithm or {declared, algorithm} <= {"EdDSA", "Ed25519", "Ed448"}
    signs = key.get("use") in (None, "sig") and "verify" in (as_list(key.get("key_ops")) or ["verify"])
    return alike and signs and bool(needed) and all(key.get(name) in values for name, values in needed.items())
