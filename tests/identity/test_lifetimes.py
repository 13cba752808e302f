"""How long pages, codes, tokens and sign-ins are valid, by a clock that the test moves."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import OpenGateway
from tests.gateway.serving import TOKEN
from tests.identity.browser import browse
from tests.identity.test_authorization import CALLBACK, CHALLENGE, VERIFIER
from tests.identity.test_sign_in import sign_in, text_of
from tests.peers.protected import Protected
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.grants import AuthorizationRequest, Grants, OAuthError
from wicket_mcp.identity.holders import CredentialHolders
from wicket_mcp.model import LOCAL

REQUEST = AuthorizationRequest("wc_client", "A client", CALLBACK, ("discover",), "state", CHALLENGE)


async def test_a_consent_page_lasts_ten_minutes_and_an_access_token_fifteen(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway:
        now = time.time()
        holders = CredentialHolders(TOKEN, gateway.registry.keys)
        grants = Grants(gateway.store, holders, gateway.audit.act, clock=lambda: now)
        sealed = grants.seal(REQUEST, "browser")
        now += 599
        request, mark = grants.open(sealed, "browser")
        now += 2
        with pytest.raises(OAuthError, match="more than ten minutes old"):
            grants.open(sealed, "browser")
        holder = await grants.sign_in(TOKEN)
        assert holder is not None
        code = await grants.approve(request, mark, holder, ["discover"])
        issued = await grants.redeem(code, REQUEST.client, CALLBACK, VERIFIER)
        now += 899
        assert await grants.principal(issued.access, "") is not None
        now += 2
        with pytest.raises(InvalidToken, match="expired"):
            await grants.principal(issued.access, "")


@pytest.mark.parametrize(("minutes", "works"), [(9, True), (10, False)])
async def test_a_sign_in_must_be_finished_within_ten_minutes(
    open_gateway: OpenGateway, state: Path, minutes: int, works: bool
) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
        [database] = state.glob("*.db")
        with closing(sqlite3.connect(database)) as other:
            other.execute("UPDATE oauth_ticket SET expires_at = expires_at - ?", (60 * minutes,))
            other.commit()
        _, page = await browse(pending.link)
        assert ("You are signed in" in page, "has expired" in page) == (works, not works)
        assert len(remote.seen("/token")) == works


@pytest.mark.parametrize(("left", "renewals"), [(50, 1), (100, 0)])
async def test_a_token_is_renewed_a_minute_before_its_end(open_gateway: OpenGateway, left: int, renewals: int) -> None:
    async with Protected(lifetime=3600) as remote:
        servers = {"x": {"url": remote.url}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)
            keep = gateway.accounts.sign_ins.keep
            grant = await keep.grant("shared", "x", remote.url)
            assert grant is not None
            await keep.save_grant("shared", "x", replace(grant, expires_at=time.time() + left))
        async with open_gateway(servers) as gateway:
            assert text_of(await gateway.call("x.whoami")) == "ann"
        assert len(remote.seen("/token")) == 1 + renewals
