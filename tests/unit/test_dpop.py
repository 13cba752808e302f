"""Proofs of possession: what a server of MCP's profile of DPoP checks."""

import base64
import hashlib

import pytest
from joserfc import jwk, jwt

from wicket_mcp.codec import decode
from wicket_mcp.identity.oauth.dpop import new_key, proof

pytestmark = pytest.mark.unit
KEY = new_key()
URL = "https://server.example/mcp?x=1"


def claims_of(text: str) -> dict[str, object]:
    return jwt.decode(text, jwk.ECKey.import_key(decode(KEY)), algorithms=["ES256"]).claims


def test_a_proof_holds_for_its_body_alone() -> None:
    body = b'{"jsonrpc": "2.0"}'
    claims = claims_of(proof(KEY, "POST", URL, "token", "nonce", body))
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    assert claims["content_digest"] == f"sha-256=:{digest}:"
    assert (claims["htm"], claims["htu"], claims["nonce"]) == ("POST", "https://server.example/mcp", "nonce")


def test_a_request_without_a_body_has_no_digest() -> None:
    assert "content_digest" not in claims_of(proof(KEY, "GET", URL, "token"))
