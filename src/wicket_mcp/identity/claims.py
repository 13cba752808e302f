"""Checks the claims of a token and turns them into a principal. Pure: the signature was checked before.

A person is identified by issuer and subject, hashed together: the same subject at two issuers is two people, and a
renewed token changes nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.model import PROGRAM, Principal, as_list, as_object, as_text

LEEWAY = 60.0
"""Seconds by which clocks may differ."""
IMPLICIT = frozenset({"discover", "invoke", "register"})
"""Our scopes that a token itself may contain; only the configuration grants `admin`."""
MAX_GROUPS = 200
_TYPES = ("at+jwt", "jwt", "application/at+jwt", "application/jwt")
LABELS = ("preferred_username", "email", "name")


class InvalidToken(Exception):
    """Why a token is not valid, in words that are safe for the client that sent it."""


def check_header(header: Mapping[str, Any], issuer: IssuerConfig) -> str:
    """The algorithm. Raises InvalidToken."""
    algorithm = header.get("alg")
    if algorithm not in issuer.algorithms:
        raise InvalidToken("its signature algorithm is not accepted")
    if "typ" in header and not is_typed(header):
        raise InvalidToken("it is not an access token")
    if "crit" in header:
        raise InvalidToken("it has a critical header that is not understood")
    return str(algorithm)


def is_typed(header: Mapping[str, Any]) -> bool:
    """Whether a header says that this may be an access token (RFC 9068; issuers also write plain JWT)."""
    kind = header.get("typ")
    return isinstance(kind, str) and kind.lower() in _TYPES


def check_times(claims: Mapping[str, Any], now: float) -> float:
    """When the token ends. Raises InvalidToken."""
    end, start = claims.get("exp"), claims.get("nbf")
    if not _is_time(end) or not (start is None or _is_time(start)):
        raise InvalidToken("it does not say how long it is valid")
    if now >= end + LEEWAY:
        raise InvalidToken("it has expired")
    if start is not None and now < start - LEEWAY:
        raise InvalidToken("it is not valid yet")
    return float(end)


def audiences(claims: Mapping[str, Any]) -> frozenset[str]:
    """The audiences of the token; a trailing slash makes no difference."""
    value = claims.get("aud")
    values: Iterable[Any] = [value] if isinstance(value, str) else as_list(value)
    return frozenset(text.rstrip("/") for text in values if isinstance(text, str))


def principal_of(claims: Mapping[str, Any], issuer: IssuerConfig) -> Principal:
    """The principal of the token: a person, or a program that signed in for itself. Raises InvalidToken."""
    subject, program = claims.get("sub"), claims.get("client_id")
    if subject is None and isinstance(program, str) and program:
        subject = f"{PROGRAM}{program}"
    if not isinstance(subject, str) or not subject:
        raise InvalidToken("it names no subject")
    groups = frozenset(_texts(read_claim(claims, issuer.groups))[:MAX_GROUPS])
    label = next((text for name in LABELS if (text := as_text(claims.get(name)))), "")[:100]
    return Principal(
        person_name(issuer.issuer, subject),
        _scopes(claims, groups, issuer),
        issuer=issuer.issuer,
        subject=subject,
        groups=groups,
        label=label,
    )


def person_name(issuer: str, subject: str) -> str:
    """A person's name in the audit, the vault and the results: the same for each of their tokens."""
    digest = hashlib.sha256(f"{len(issuer)} {issuer} {subject}".encode("utf-8", "surrogatepass"))
    return f"person:{digest.hexdigest()[:32]}"


def _scopes(claims: Mapping[str, Any], groups: frozenset[str], issuer: IssuerConfig) -> frozenset[str]:
    named = {*_texts(claims.get("scope")), *_texts(claims.get("scp"))}
    if not issuer.scopes:
        return frozenset(named & IMPLICIT)
    held = named | {*_texts(claims.get("roles"))} | groups | {"*"}
    return frozenset(scope for name, scopes in issuer.scopes.items() if name in held for scope in scopes)


def _texts(value: Any) -> list[str]:
    """A claim with several values: a list, or words separated by spaces."""
    if isinstance(value, str):
        return value.split()
    return [text for text in as_list(value) if isinstance(text, str)]


def read_claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by a dotted path into objects."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = as_object(value).get(name)
    return value


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
