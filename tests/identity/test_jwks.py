"""An issuer's keys: how often they are fetched, and from where."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from joserfc.jwk import OKPKey, RSAKey

from tests.peers.identity_provider import IdentityProvider
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.errors import Unavailable
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.documents import Documents
from wicket_mcp.identity.jwks import RETRY, Keys
from wicket_mcp.identity.tokens import Issuer, Tokens


class Clock:
    """A time that passes when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def keys_of(provider: IdentityProvider, clock: Clock) -> AsyncGenerator[Keys]:
    documents = Documents(["127.0.0.1"])
    yield Keys(IssuerConfig(issuer=provider.issuer), documents, clock)
    await documents.close()


async def test_unknown_keys_ask_once_a_minute_also_while_the_issuer_fails() -> None:
    clock = Clock()
    async with IdentityProvider() as provider, keys_of(provider, clock) as keys:
        assert await keys.find("first", "RS256")
        provider.gone = "/keys"
        for second in range(181):
            assert not await keys.find(f"unknown {second}", "RS256")
            assert await keys.find("first", "RS256")  # what is known stays known
            clock.now += 1
        assert provider.asked["/keys"] == 1 + 3


async def test_a_token_ends_with_its_key_within_an_hour() -> None:
    """However long it says that it lasts: who stole a key could have made it."""
    clock, wall = Clock(), Clock()
    wall.now = time.time()
    async with IdentityProvider() as provider:
        issuer, documents = IssuerConfig(issuer=provider.issuer, audience=("us",)), Documents(["127.0.0.1"])
        keys = Keys(issuer, documents, clock)
        tokens = Tokens([Issuer(issuer, documents, keys)], documents, [], lambda who, act, about: None, wall)
        token = provider.token(aud="us", exp=wall.now + 365 * 86400)
        assert await tokens.principal(token, "")
        provider.keys = [RSAKey.generate_key(2048, {"kid": "second"})]
        for clocks in (clock, wall):
            clocks.now += 3599
        assert await tokens.principal(token, "")
        for clocks in (clock, wall):
            clocks.now += 2
        with pytest.raises(InvalidToken, match="key is not known"):
            await tokens.principal(token, "")
        await tokens.close()


async def test_keys_that_moved_are_found_again() -> None:
    clock = Clock()
    async with IdentityProvider() as provider, keys_of(provider, clock) as keys:
        assert await keys.find("first", "RS256")
        provider.gone = "/keys"
        provider.metadata["jwks_uri"] = provider.metadata["jwks_uri"].replace("/keys", "/moved")
        for moved in (0, 1):
            clock.now += 3600
            assert await keys.find("first", "RS256")
            assert provider.asked["/moved"] == moved


async def test_a_key_that_is_replaced_under_its_name_ends_with_the_next_fetch() -> None:
    clock, wall = Clock(), Clock()
    wall.now = time.time()
    async with IdentityProvider() as provider:
        issuer, documents = IssuerConfig(issuer=provider.issuer, audience=("us",)), Documents(["127.0.0.1"])
        keys = Keys(issuer, documents, clock)
        tokens = Tokens([Issuer(issuer, documents, keys)], documents, [], lambda who, act, about: None, wall)
        until = wall.now + 86400
        stolen = provider.token(aud="us", exp=until)
        for number in range(20):  # an object of a withdrawn key must not stand for a new one, wherever that lies
            assert await tokens.principal(provider.token(aud="us", exp=until, jti=f"before {number}"), "")
            provider.keys = [RSAKey.generate_key(2048, {"kid": "first"})]
            for clocks in (clock, wall):
                clocks.now += 3601
            assert await tokens.principal(provider.token(aud="us", exp=until, jti=f"after {number}"), "")
            with pytest.raises(InvalidToken, match="signature is wrong"):
                await tokens.principal(stolen, "")
        await tokens.close()


async def test_keys_that_cannot_be_had_are_not_asked_for_by_every_token() -> None:
    clock = Clock()
    async with IdentityProvider() as provider, keys_of(provider, clock) as keys:
        provider.gone = "/keys"
        for _ in range(20):
            with pytest.raises(Unavailable):
                await keys.find("first", "RS256")
        assert provider.asked["/keys"] == 1
        clock.now += RETRY
        provider.gone = ""
        assert await keys.find("first", "RS256")
        assert provider.asked["/keys"] == 2


@pytest.mark.parametrize("marks", [{"n": "!"}, {"n": None}, {"n": 5}, {"e": ["x"]}, {"kty": "EC"}])
async def test_one_key_that_cannot_be_read_hides_no_other(marks: dict[str, object]) -> None:
    async with IdentityProvider() as provider, keys_of(provider, Clock()) as keys:
        provider.keys = [RSAKey.generate_key(2048, {"kid": "broken"}), provider.rsa]
        provider.marks["broken"] = marks
        assert [key.kid for key in await keys.find(None, "RS256")] == ["first"]


@pytest.mark.parametrize(
    ("marks", "algorithm", "usable"),
    [
        ({}, "EdDSA", True),
        ({"alg": "EdDSA"}, "EdDSA", True),
        ({"alg": "Ed25519"}, "EdDSA", True),
        ({"alg": "EdDSA"}, "Ed25519", True),
        ({"alg": "ES256"}, "EdDSA", False),
        ({"key_ops": ["verify"]}, "EdDSA", True),
        ({"key_ops": []}, "EdDSA", True),
        ({"key_ops": ["sign"]}, "EdDSA", False),
        ({"key_ops": ["wrapKey"]}, "EdDSA", False),
        ({"use": "sig"}, "EdDSA", True),
        ({"use": "enc"}, "EdDSA", False),
    ],
)
async def test_a_key_counts_for_what_it_is_published_for(
    marks: dict[str, object], algorithm: str, usable: bool
) -> None:
    async with IdentityProvider() as provider, keys_of(provider, Clock()) as keys:
        provider.keys = [OKPKey.generate_key("Ed25519", {"kid": "ed"})]
        provider.marks["ed"] = marks
        assert bool(await keys.find("ed", algorithm)) == usable
