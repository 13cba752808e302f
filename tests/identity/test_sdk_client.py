"""The SDK's own OAuth client connects to a gateway that is its own authorization server, as a connector does."""

import html
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import TOKEN, serve_http
from tests.peers.path_proxy import PathProxy


class Person:
    """Keeps what the client is given, and allows it on the page that it opens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.pages = 0
        self._answer: dict[str, list[str]] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def allow(self, address: str) -> None:
        self.pages += 1
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        async with aiohttp.ClientSession() as browser:
            async with browser.get(address) as page:
                text = await page.text()
                (sealed,) = re.findall(r'name="request" value="([^"]+)"', text)
                (action,) = re.findall(r'<form method="post" action="([^"]+)"', text)
            form = {"request": html.unescape(sealed), "decision": "approve", "credential": TOKEN}
            pairs = [*form.items(), ("scope", "discover"), ("scope", "invoke")]
            async with browser.post(
                f"{origin}{action}", data=pairs, headers={"Origin": origin}, allow_redirects=False
            ) as answer:
                self._answer = parse_qs(urlsplit(answer.headers["Location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        code, state, issuer = (self._answer[name][0] for name in ("code", "state", "iss"))
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)


@dataclass
class Connector:
    """The SDK's client, at the address that a person has given it."""

    address: str
    person: Person = field(default_factory=Person)

    def __post_init__(self) -> None:
        ours = OAuthClientMetadata(client_name="a connector", redirect_uris=[AnyUrl("https://client.example/callback")])
        person = self.person
        self.oauth = OAuthClientProvider(self.address, ours, person, person.allow, person.come_back)

    async def call(self, mode: Any = "auto") -> str:
        async with create_mcp_http_client(auth=self.oauth) as session:
            transport = streamable_http_client(self.address, http_client=session)
            async with Client(transport, mode=mode) as client:
                arguments = {"name": "echo.echo", "arguments": {"message": "hello"}}
                return str((await client.call_tool("call_tool", arguments)).content)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_from_an_address_to_a_call_and_on_with_the_refresh_token(open_gateway: OpenGateway, mode: str) -> None:
    http = {"authorization": {"enabled": True}}
    async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
        connector = Connector(address)
        person = connector.person
        assert "hello" in await connector.call(mode)
        assert person.tokens is not None
        first = person.tokens.refresh_token
        connector.oauth.context.token_expiry_time = 1.0  # the client takes it for expired
        assert "hello" in await connector.call(mode)
        assert (person.pages, person.tokens.refresh_token != first) == (1, True)
        (grant,) = await gateway.store.grants()
        assert grant.client_name == "a connector"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/native"])
async def test_a_gateway_under_a_path_of_its_host_is_found_and_named_as_the_issuer(
    open_gateway: OpenGateway, path: str
) -> None:
    async with PathProxy("/tools/gate") as proxy:
        http = {"public_url": proxy.address, "authorization": {"enabled": True}}
        async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as local:
            proxy.target = local.removesuffix("/mcp")
            connector = Connector(f"{proxy.address}{path}")
            assert "hello" in await connector.call()
            found = connector.oauth.context.oauth_metadata
            assert found is not None
            assert str(found.issuer) == proxy.address  # clients compare it with the address they derived it from
            host = proxy.address.removesuffix("/tools/gate")
            async with aiohttp.ClientSession() as session:
                at = f"{host}/.well-known/oauth-authorization-server/tools/gate"
                async with session.get(at) as answer:
                    assert (await answer.json())["issuer"] == proxy.address
                about = f"{host}/.well-known/oauth-protected-resource/tools/gate"
                for suffix, resource in ((path, path), ("", "/mcp")):
                    async with session.get(f"{about}{suffix}") as answer:
                        assert (await answer.json())["resource"] == f"{proxy.address}{resource}"
                async with session.get(f"{about}/elsewhere") as answer:
                    assert answer.status == 401
