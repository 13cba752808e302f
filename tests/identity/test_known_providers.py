"""The issuers of docs/sign-in.md, with tokens as each is documented to make them, and the options of that page."""

from typing import Any

import pytest

from tests.conftest import ROOT, OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_http import INITIALIZE, call
from tests.peers.identity_provider import IdentityProvider

CLIENT = "11112222-3333-4444-5555-666677778888"
USERS = ["discover", "invoke"]
NO_TYPE = {"typ": None}
JWT = {"typ": "JWT"}

Case = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""The options of the issuer, the header of its tokens, and their claims."""
CASES: dict[str, Case] = {
    "Entra ID": (
        {"audience": [f"api://{CLIENT}", CLIENT], "scopes": {"Mcp.User": USERS}},
        JWT,
        {"aud": CLIENT, "scp": "access_as_user", "roles": ["Mcp.User"], "oid": "o", "tid": "t", "ver": "2.0"},
    ),
    "Okta": (
        {
            "audience": ["api://default"],
            "groups": "groups",
            "scopes": {"mcp-users": USERS},
            "introspection": "/introspect",
        },
        NO_TYPE,
        {"aud": "api://default", "scp": ["openid"], "cid": "0oa1", "uid": "00u1", "groups": ["Everyone", "mcp-users"]},
    ),
    "Keycloak": (
        {"audience": ["account"], "groups": "realm_access.roles", "scopes": {"mcp-users": USERS}},
        JWT,
        {"aud": "account", "azp": "vscode", "typ": "Bearer", "realm_access": {"roles": ["mcp-users"]}},
    ),
    "Google": (
        {"audience": ["1234.apps.googleusercontent.com"], "groups": "hd", "scopes": {"example.com": USERS}},
        JWT,
        {"aud": "1234.apps.googleusercontent.com", "azp": "1234.apps.googleusercontent.com", "hd": "example.com"},
    ),
}


@pytest.mark.parametrize("provider", CASES)
async def test_a_token_of_a_well_known_provider_counts(open_gateway: OpenGateway, provider: str) -> None:
    options, header, claims = CASES[provider]
    assert f"\n| {provider} |" in (ROOT / "docs" / "sign-in.md").read_text("utf-8")
    async with IdentityProvider() as issuer:
        if "introspection" in options:
            options = {**options, "introspection": f"{issuer.issuer}/introspect"}
        http = {"issuers": [{"issuer": issuer.issuer, **options}]}
        async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                token = issuer.token(header=header, **{"scope": None, **claims})
                issuer.opaque[token] = {"active": True, **issuer.claims(**{"scope": None, **claims})}
                status, headers, _ = await client.post(INITIALIZE, token=token)
                assert status == 200
                session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                _, _, body = await client.post(call("echo.echo", message="hello"), session, token=token)
                assert body["result"]["content"][0]["text"] == "hello"
                other: dict[str, Any] = {"scope": None, **claims, "aud": "another-application"}
                stranger = issuer.token(header=header, **other)
                issuer.opaque[stranger] = {"active": True, **issuer.claims(**other)}
                assert (await client.post(INITIALIZE, token=stranger))[0] == 401


@pytest.mark.parametrize(
    ("groups", "claims", "status"),
    [
        ("hd", {"hd": "example.com", "email": "ann@example.com"}, 200),
        ("hd", {"email": "ann@gmail.com"}, 403),  # a private account has no domain
        ("email", {"email": "ann@example.com"}, 200),
        ("email", {"email": "eve@example.com"}, 403),
    ],
)
async def test_accounts_that_everybody_can_have_are_let_in_by_domain_or_address(
    open_gateway: OpenGateway, groups: str, claims: dict[str, Any], status: int
) -> None:
    async with IdentityProvider() as issuer:
        scopes = {"example.com": USERS, "ann@example.com": USERS}
        options = {"issuer": issuer.issuer, "audience": ["us"], "groups": groups, "scopes": scopes}
        async with open_gateway({"echo": peer("Echo")}, http={"issuers": [options]}) as gateway:
            async with serve_http(gateway) as address, raw_client(address) as client:
                content: dict[str, Any] = {"scope": None, "aud": "us", **claims}
                token = issuer.token(header=JWT, **content)
                assert (await client.post(INITIALIZE, token=token))[0] == status
