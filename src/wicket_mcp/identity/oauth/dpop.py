"""Proofs of possession (RFC 9449): a stolen token is useless without our key.

Loaded for the servers whose authorization server offers it; brings joserfc, and with it cryptography.
"""

import base64
import hashlib
import secrets
import time
from urllib.parse import urlsplit, urlunsplit

from joserfc import jwk, jwt

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import JsonObject

ALGORITHM = "ES256"


def new_key() -> str:
    """A private key, as JSON."""
    return encode(jwk.ECKey.generate_key("P-256").as_dict(private=True)).decode()


def proof(key: str, verb: str, url: str, token: str = "", nonce: str = "", body: bytes | None = None) -> str:
    """A proof for one request; if it has a `body`, the proof is valid only for that body (MCP's profile of DPoP)."""
    pair = jwk.ECKey.import_key(decode(key))
    split = urlsplit(url)
    claims: JsonObject = {
        "jti": secrets.token_urlsafe(16),
        "htm": verb,
        "htu": urlunsplit((split.scheme, split.netloc, split.path, "", "")),
        "iat": int(time.time()),
    }
    if token:
        claims["ath"] = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    if body is not None:
        claims["content_digest"] = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    if nonce:
        claims["nonce"] = nonce
    header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": pair.as_dict(private=False)}
    return jwt.encode(header, claims, pair, algorithms=[ALGORITHM])
