"""Our own authorization server, where people show who they are at an OpenID provider: the consent comes first."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import aiohttp
import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import Raw, serve_http
from tests.gateway.test_http import INITIALIZE, call
from tests.identity.test_authorization import Flow, returned
from tests.peers.identity_provider import IdentityProvider
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.claims import person_name
from wicket_mcp.store.model import AuditQuery

STAFF = {"staff": ["discover", "invoke"]}


class Visitor(Flow):
    """A person who allows a client and then signs in with a provider."""

    async def leave(self, provider: IdentityProvider) -> str:
        """Allow the client; the address that the browser is sent to, and the cookie that it is given."""
        answer = await self.submit(await self.sealed(), decision=provider.issuer, credential="")
        assert answer.status == 200, await answer.text()
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        (address,) = re.findall(r'content="0;url=([^"]+)"', await answer.text())
        return unescape(address)

    async def come_back(self, address: str) -> aiohttp.ClientResponse:
        """Sign in at the provider, and take what it says back to us."""
        async with self.session.get(address, allow_redirects=False) as answer:
            back = answer.headers["Location"]
        return await self.session.get(back, headers={"Cookie": self.cookie}, allow_redirects=False)


@asynccontextmanager
async def visiting(
    open_gateway: OpenGateway, provider: IdentityProvider, **options: Any
) -> AsyncGenerator[tuple[Visitor, Gateway]]:
    issuer = {"issuer": provider.issuer, "client_id": "wicket", "client_secret": "hush", "scopes": STAFF, **options}
    http = {"authorization": {"enabled": True}, "issuers": [issuer]}
    async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            visitor = Visitor(session, address.removesuffix("/mcp"))
            await visitor.register()
            yield visitor, gateway


async def test_a_person_signs_in_with_a_provider_and_calls(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        page = await visitor.visit()
        assert "Allow, and sign in with 127.0.0.1" in await page.text()
        assert "Set-Cookie" not in page.headers
        address = await visitor.leave(provider)
        assert visitor.cookie.startswith("__Host-wicket-visit=")
        answer = await visitor.come_back(address)
        back = returned(answer)
        assert (back["state"], back["iss"]) == ("st&te", visitor.base)
        (question,) = provider.questions
        assert (question["scope"], question["code_challenge_method"]) == ("openid email groups", "S256")

        status, issued = await visitor.redeem(back["code"])
        assert (status, issued["scope"]) == (200, "discover invoke")
        raw = Raw(visitor.session, f"{visitor.base}/mcp")
        _, headers, _ = await raw.post(INITIALIZE, token=issued["access_token"])
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        _, _, body = await raw.post(call("echo.echo", message="hello"), session, token=issued["access_token"])
        assert body["result"]["content"][0]["text"] == "hello"
        person = person_name(provider.issuer, "ann")  # the same as with a token of this provider
        acts = await gateway.store.find_calls(AuditQuery(principal=person))
        assert {act.tool for act in acts} == {"sign-in", "grant", "echo"}

        visitor.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        again = await (await visitor.visit()).text()
        assert "signed in as <strong>ann@example.com</strong>" in again


async def test_rights_follow_the_configuration_and_end_with_the_issuer(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        back = returned(await visitor.come_back(await visitor.leave(provider)))
        _, issued = await visitor.redeem(back["code"])
        assert await visitor.status(issued["access_token"]) == 200
        http = {"authorization": {"enabled": True}}
        gateway.apply(Config.from_dict({"http": http, "state_dir": str(gateway.config.state_path)}))
        assert await visitor.status(issued["access_token"]) == 401
        assert (await visitor.refresh(issued["refresh_token"]))[1]["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"nonce": "another"}, "another sign-in"),
        ({"aud": "another-client"}, "another client"),
        ({"aud": ["wicket", "other"], "azp": "other"}, "another client"),
        ({"iss": "https://other.example"}, "issuer is not accepted"),
        ({"exp": 1}, "expired"),
        ({"sub": None}, "names no subject"),
        ({"groups": ["guests"]}, "ann@example.com is allowed nothing here"),
    ],
)
async def test_an_id_token_that_must_not_count(open_gateway: OpenGateway, claims: dict[str, Any], words: str) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        provider.id_token = claims
        back = returned(await visitor.come_back(await visitor.leave(provider)))
        assert (back["error"], back["state"]) == ("access_denied", "st&te")
        assert words in back["error_description"]
        assert await gateway.store.grants() == []


async def test_a_provider_that_refuses_or_fails_is_told_to_the_client(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        provider.redirect = {"code": "", "error": "login_required"}
        back = returned(await visitor.come_back(await visitor.leave(provider)))
        assert (back["error"], "login_required" in back["error_description"]) == ("access_denied", True)
        provider.redirect = {"code": "made-up"}  # of which the token endpoint knows nothing
        back = returned(await visitor.come_back(await visitor.leave(provider)))
        assert back["error"] == "temporarily_unavailable"
        assert await gateway.store.grants() == []


async def test_an_answer_of_another_issuer_browser_or_time_leads_nowhere(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider) as (visitor, gateway):
        provider.redirect = {"iss": "https://other.example"}
        answer = await visitor.come_back(await visitor.leave(provider))
        assert (answer.status, "did not come from the provider" in await answer.text()) == (400, True)
        provider.redirect = {}
        address = await visitor.leave(provider)
        own, visitor.cookie = visitor.cookie, "__Host-wicket-visit=stolen"
        answer = await visitor.come_back(address)
        assert (answer.status, "another browser" in await answer.text()) == (400, True)
        visitor.cookie = own
        answer = await visitor.come_back(address)  # the same state once more
        assert (answer.status, "used already" in await answer.text()) == (400, True)
        assert provider.asked["/token"] == 0
        assert await gateway.store.grants() == []


async def test_a_provider_that_is_away_stops_nothing_else(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        pass
    async with visiting(open_gateway, provider) as (visitor, _):
        answer = await visitor.submit(await visitor.sealed(), decision=provider.issuer, credential="")
        assert (answer.status, "cannot be asked now" in await answer.text()) == (400, True)
        assert await visitor.code()  # with the owner's token


async def test_an_issuer_without_a_client_of_ours_is_not_offered(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, visiting(open_gateway, provider, client_id="") as (visitor, _):
        assert "sign in with" not in await (await visitor.visit()).text()
        denied = await visitor.submit(await visitor.sealed(), decision=provider.issuer)
        assert returned(denied)["error"] == "access_denied"
