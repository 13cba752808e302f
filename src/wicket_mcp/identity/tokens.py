"""Access tokens of identity providers: the principal of a token, or why it is invalid. Wicket as a resource server.

A validated token is recognised by its digest for up to an hour, so that a call needs no signature check. JWTs are
checked with the issuer's keys (`jwks.py`) and rules (`claims.py`). About another token one issuer is asked (RFC 7662),
the one whose tokens begin like it. The token itself is neither stored nor passed on. Only the guard calls this; nothing
else sees a token.
"""

import asyncio
import base64
import binascii
import hashlib
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from wicket_mcp.codec import decode
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.config.read.secrets import expand
from wicket_mcp.errors import ConfigError
from wicket_mcp.identity.claims import (
    LEEWAY,
    InvalidToken,
    audiences,
    check_header,
    check_times,
    is_typed,
    principal_of,
)
from wicket_mcp.identity.documents import Documents, hosts_of
from wicket_mcp.identity.jwks import Keys
from wicket_mcp.identity.oauth.messages import Client, authenticate
from wicket_mcp.model import JsonObject, Principal, as_object, as_text

MAX_TOKEN = 16 * 1024
MAX_KNOWN = 10_000
MAX_REFUSED = 2_000
ASK_AGAIN = 60.0
"""Seconds for which the answer about an opaque token is valid; a revoked one ends within that time."""
CHECK_AGAIN = 3600.0
"""The same for a JWT: one whose key the issuer has withdrawn ends within this time and the age of the keys."""
REFUSED_FOR = 10.0
_ACCESS_KINDS = ("bearer", "access", "access_token", "at+jwt", "urn:ietf:params:oauth:token-type:access_token")
ASKING = 8
"""Concurrent introspection requests."""


Act: TypeAlias = Callable[[str, str, str], None]
"""Called with who did what, and to what, for the audit."""


@dataclass(frozen=True, slots=True)
class Known:
    """A validated token: its principal, its audience, and its end."""

    principal: Principal
    audiences: frozenset[str]
    fixed_audience: bool
    """Whether the audience was the configured one rather than our address."""
    until: float


class Tokens:
    """The tokens of all configured issuers. `paths` are those of our resources, such as `/mcp`."""

    def __init__(
        self,
        issuers: Sequence["Issuer"],
        documents: Documents,
        paths: Collection[str],
        on_act: Act,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {issuer.config.issuer: issuer for issuer in issuers}
        self._documents = documents
        self._on_act = on_act
        self._seen: dict[bytes, None] = {}
        self._clock = clock
        self._known: dict[bytes, Known] = {}
        self._refused: dict[bytes, float] = {}
        self._asking = asyncio.Semaphore(ASKING)
        self._paths = paths
        self._resources = lru_cache(64)(self._list_resources)

    @classmethod
    def of(cls, config: Config, paths: Collection[str], on_act: Act) -> "Tokens":
        """Raises ConfigError if a secret is missing."""
        issuers = config.http.issuers
        named = [hosts_of(issuer.issuer, issuer.jwks, issuer.introspection) for issuer in issuers]
        documents = Documents([*config.registry.allowed_addresses, *(host for hosts in named for host in hosts)])
        return cls([Issuer.of(issuer, documents, config) for issuer in issuers], documents, paths, on_act)

    async def principal(self, token: str, base: str) -> Principal:
        """The principal of a token that was sent to us at `base`. Raises InvalidToken, or Unavailable."""
        digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        now = self._clock()
        known = self._known.get(digest)
        if known is None or now >= known.until:
            known = await self._validate(token, digest, now)
        if not known.fixed_audience and known.audiences.isdisjoint(self._resources(base)):
            raise InvalidToken("it was issued for another service")
        return known.principal

    @property
    def issuers(self) -> Sequence["Issuer"]:
        return tuple(self._issuers.values())

    @property
    def documents(self) -> Documents:
        return self._documents

    async def close(self) -> None:
        await self._documents.close()

    def _list_resources(self, base: str) -> frozenset[str]:
        return frozenset({base, *(f"{base}{path}" for path in self._paths)})

    async def _validate(self, token: str, digest: bytes, now: float) -> Known:
        self._known.pop(digest, None)
        if len(token) > MAX_TOKEN:
            raise InvalidToken("it is too long")
        if token.count(".") == 2:
            header, claims = _read(token)
            issuer = self._issuers.get(as_text(claims.get("iss")))
            if issuer is None:
                raise InvalidToken("its issuer is not accepted here")
            if "typ" in header or not issuer.config.introspection:
                known = await issuer.verify(token, header, now)
            else:  # it may be an ID token or anything else that the issuer has signed: only the issuer knows
                known = await self._introspect(token, digest, now, issuer)
        else:
            known = await self._introspect(token, digest, now, self._find_asked(token))
        _keep(self._known, digest, known, MAX_KNOWN)
        self._note(known.principal)
        return known

    def _note(self, principal: Principal) -> None:
        """Record a person's details the first time they come: everything else names them by a digest."""
        name = principal.id.encode()
        if name not in self._seen:
            _keep(self._seen, name, None, MAX_KNOWN)
            about = f"{principal.label} ({principal.subject}) of {principal.issuer}".strip()
            self._on_act(principal.id, "sign-in", about)

    def _find_asked(self, token: str) -> "Issuer":
        """The issuer that is asked about an opaque token: no other one must see it. Raises InvalidToken."""
        issuers = [issuer for issuer in self._issuers.values() if issuer.config.introspection]
        candidates = [issuer for issuer in issuers if token.startswith(issuer.config.token_prefix)]
        if not candidates:
            raise InvalidToken("no issuer can be asked about it")
        return max(candidates, key=lambda issuer: len(issuer.config.token_prefix))

    async def _introspect(self, token: str, digest: bytes, now: float, issuer: "Issuer") -> Known:
        if now >= self._refused.get(digest, 0.0):
            async with self._asking:
                known = await issuer.introspect(token, now)
            if known is not None:
                return known
            _keep(self._refused, digest, now + REFUSED_FOR, MAX_REFUSED)
        raise InvalidToken("it is not active")


class Issuer:
    """One issuer: how its tokens are checked."""

    def __init__(self, config: IssuerConfig, documents: Documents, keys: Keys, secret: str = "") -> None:
        self.config = config
        self._documents = documents
        self._keys = keys
        self.secret = secret
        self._audience = frozenset(text.rstrip("/") for text in config.audience)

    @classmethod
    def of(cls, config: IssuerConfig, documents: Documents, whole: Config) -> "Issuer":
        secret = expand(config.client_secret, "http.issuers.client_secret", whole.base_dir)
        return cls(config, documents, Keys(config, documents), secret)

    async def verify(self, token: str, header: JsonObject, now: float) -> Known:
        """Verify a JWT of this issuer. Raises InvalidToken, or Unavailable while its keys cannot be read."""
        if not is_typed(header):
            raise InvalidToken("its header does not say that it is an access token (typ)")
        claims = await self._read_signed(token, header)
        return self._judge(claims, min(check_times(claims, now) + LEEWAY, now + CHECK_AGAIN))

    async def read_id_token(self, token: str, nonce: str, now: float) -> JsonObject:
        """The issuer's claims about a person who has just signed in through us, its client. Raises as `verify` does."""
        header, _ = _read(token)
        claims = await self._read_signed(token, header)
        check_times(claims, now)
        party = claims.get("azp", self.config.client_id)
        if self.config.client_id not in audiences(claims) or party != self.config.client_id:
            raise InvalidToken("it was issued for another client")
        if claims.get("nonce") != nonce:
            raise InvalidToken("it answers another sign-in")
        return claims

    async def _read_signed(self, token: str, header: JsonObject) -> JsonObject:
        algorithm = check_header(header, self.config)
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise InvalidToken("its key is not known")
        keys = await self._keys.find(kid, algorithm)
        if not keys:
            raise InvalidToken("its key is not known")
        claims = _verify(token, keys, algorithm)
        if claims.get("iss") != self.config.issuer:
            raise InvalidToken("its issuer is not accepted here")
        return claims

    async def introspect(self, token: str, now: float) -> Known | None:
        """The issuer's answer about an opaque token; None if it is not active. Raises Unavailable, InvalidToken."""
        endpoint, config = self.config.introspection or "", self.config
        us = Client(
            issuer=config.issuer,
            client_id=config.client_id,
            client_secret=self.secret,
            auth_method="client_secret_basic",
        )
        headers, fields = authenticate(us, endpoint, {"token": token, "token_type_hint": "access_token"})
        claims = await self._documents.post(endpoint, fields, headers)
        if claims.get("active") is not True:
            return None
        if any(not _may_be_access(claims.get(name)) for name in ("token_type", "token_use", "typ")):
            raise InvalidToken("it is not an access token")
        if claims.get("iss", self.config.issuer) != self.config.issuer:
            raise InvalidToken("its issuer is not accepted here")
        end = check_times(claims, now) + LEEWAY if "exp" in claims else now + ASK_AGAIN
        return self._judge(claims, min(end, now + ASK_AGAIN))

    def _judge(self, claims: JsonObject, until: float) -> Known:
        meant = audiences(claims)
        if self._audience and meant.isdisjoint(self._audience):
            raise InvalidToken("it was issued for another service")
        return Known(principal_of(claims, self.config), meant, bool(self._audience), until)


def _may_be_access(kind: object) -> bool:
    """Whether an issuer that says this of a token may mean an access token; many say nothing."""
    return kind is None or (isinstance(kind, str) and kind.lower() in _ACCESS_KINDS)


def _verify(token: str, keys: Iterable[Any], algorithm: str) -> JsonObject:
    """The claims of a token that one of these keys has signed. Raises InvalidToken."""
    try:
        from joserfc.errors import JoseError, SecurityWarning  # noqa: PLC0415  (70 ms, for those who accept tokens)
        from joserfc.jws import JWSRegistry, deserialize_compact  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "Accepting tokens needs the package 'joserfc'.", key="http.issuers", hint="Install wicket-mcp[auth]."
        ) from None
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # the name EdDSA is deprecated, but issuers use it
        for key in keys:
            try:
                return as_object(decode(deserialize_compact(token, key, registry=registry).payload))
            except (JoseError, ValueError):
                continue
    raise InvalidToken("its signature is wrong")


def _read(token: str) -> tuple[JsonObject, JsonObject]:
    """The header and the claims, unchecked. Raises InvalidToken."""
    try:
        header, claims = (
            as_object(decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))) for part in token.split(".")[:2]
        )
    except (binascii.Error, ValueError):
        raise InvalidToken("it cannot be read") from None
    return header, claims


def _keep(known: dict[bytes, Any], digest: bytes, value: Any, most: int) -> None:
    """Remember a value; the oldest are dropped."""
    while len(known) >= most:
        del known[next(iter(known))]
    known[digest] = value
