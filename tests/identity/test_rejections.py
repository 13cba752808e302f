"""Servers that reject a sign-in, do not say how to sign in, or send us to another authorization server."""

import pytest

from tests.conftest import OpenGateway
from tests.identity.test_sign_in import sign_in, text_of
from tests.peers.protected import (
    AcceptsNothing,
    ChallengesAtLength,
    Moves,
    OffersSeveral,
    Protected,
    ProviderDown,
    SaysNothing,
)
from wicket_mcp.errors import NeedsSignIn, SignInFailed, Unavailable
from wicket_mcp.identity.oauth.client import OAuthClient
from wicket_mcp.identity.oauth.credentials import PersonCredentials
from wicket_mcp.model import LOCAL
from wicket_mcp.upstream.egress import Endpoint, HttpClient


async def test_a_renewed_token_that_is_rejected_too_needs_sign_in(open_gateway: OpenGateway) -> None:
    """And nobody is signed out by a server that rejects everything for a while."""
    async with AcceptsNothing() as remote:
        servers = {"x": {"url": remote.url}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)
            await gateway.call("x.whoami")
            remote.closed = True
            for _ in range(3):
                with pytest.raises(NeedsSignIn, match="wicket login x"):
                    await gateway.call("x.whoami")
            assert len(remote.seen("/token")) == 1 + 2  # not with every call
            [status] = await gateway.servers()
            assert (status.state, status.tools) == ("needs sign-in", 1)
        remote.closed = False
        async with open_gateway(servers) as gateway:
            assert text_of(await gateway.call("x.whoami")) == "ann"
            [status] = await gateway.servers()
            assert (status.state, status.problem) == ("ready", "")


async def test_a_rejected_sign_in_is_renewed_once_more_after_a_minute(open_gateway: OpenGateway) -> None:
    async with AcceptsNothing() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        config, accounts, now = gateway.catalogue.server("x"), gateway.accounts, 0.0
        keep, oauth, web = accounts.sign_ins.keep, OAuthClient("x", remote.url), HttpClient()
        credentials = PersonCredentials("x", "shared", oauth, keep, accounts.need, accounts.waiting, clock=lambda: now)
        sent = await credentials.headers("POST", remote.url)
        remote.closed = True
        rejected = await web.send("POST", Endpoint.of("x", remote.url, {}), sent, b"{}")
        with pytest.raises(NeedsSignIn):
            await credentials.handle_rejection(rejected, sent, final=True)
        assert await accounts.missing([config], LOCAL) == {"x"}
        now += 59
        assert await credentials.headers("POST", remote.url) == {}
        now += 2
        again = await credentials.headers("POST", remote.url)
        assert again["Authorization"].startswith("Bearer canary-ann")
        assert again != sent
        assert await accounts.missing([config], LOCAL) == frozenset()
        rejected.close()
        await oauth.close()
        await web.close()


async def test_a_rejected_token_is_not_called_rejected_while_its_provider_is_down(open_gateway: OpenGateway) -> None:
    async with ProviderDown() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        await gateway.call("x.whoami")
        remote.tokens.clear()
        remote.down = True
        with pytest.raises(SignInFailed, match="without a token"):
            await gateway.call("x.whoami")
        remote.down = False
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_server_that_says_nothing_about_oauth_is_signed_in_to_if_it_is_configured_so(
    open_gateway: OpenGateway,
) -> None:
    async with SaysNothing() as remote:
        servers = {"x": {"url": remote.url, "auth": {"kind": "oauth"}}}
        async with open_gateway(servers) as gateway:
            with pytest.raises(NeedsSignIn, match="wicket login x"):
                await gateway.call("x.whoami")
            [status] = await gateway.servers()
            assert status.state == "needs sign-in"
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_server_that_offers_several_ways_is_understood(open_gateway: OpenGateway) -> None:
    async with OffersSeveral() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        with pytest.raises(NeedsSignIn):
            await gateway.call("x.whoami")
        await sign_in(gateway)
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_client_of_the_configuration_is_shown_to_one_authorization_server_alone(
    open_gateway: OpenGateway,
) -> None:
    auth = {"kind": "oauth", "client_id": "canary-id", "client_secret": "canary-secret"}
    async with Moves() as remote, Protected() as other:
        servers = {"x": {"url": remote.url, "auth": auth}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)
        remote.other = other
        async with open_gateway(servers) as gateway:
            with pytest.raises(SignInFailed, match=f"{other.origin} instead of {remote.origin}.*set auth.issuer"):
                await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
        assert not [received for received in other.received if "canary" in received.whole]
        servers["x"]["auth"] = {**auth, "issuer": other.origin}
        async with open_gateway(servers) as gateway:
            pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
            assert pending.begun.url.startswith(f"{other.origin}/authorize")


@pytest.mark.parametrize(("before", "behind", "is_read"), [(0, 30, True), (7, 0, True), (8, 0, False), (30, 0, False)])
async def test_no_more_than_eight_challenges_of_a_server_are_read(
    open_gateway: OpenGateway, before: int, behind: int, is_read: bool
) -> None:
    async with ChallengesAtLength() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        remote.before, remote.behind = before, behind
        with pytest.raises(NeedsSignIn if is_read else Unavailable) as refused:
            await gateway.call("x.whoami")
        assert isinstance(refused.value, NeedsSignIn) == is_read
