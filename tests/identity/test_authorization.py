"""Our own authorization server: from nothing to a call, and everything that must be refused on the way."""

import asyncio
import base64
import hashlib
import html
import json
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.cli.shell import Shell
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import ACCEPT, TOKEN, Raw, serve_http
from tests.gateway.test_http import INITIALIZE, call
from tests.peers.http_faults import HttpPeer, Received, send
from wicket_mcp import Gateway
from wicket_mcp.errors import BadArguments
from wicket_mcp.identity.clients import MAX_CLIENTS, PER_HOUR, check_redirects
from wicket_mcp.store.model import AuditQuery

VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CALLBACK = "https://client.example/callback"


class Site(HttpPeer):
    """A web site with one page, which the test changes."""

    says: tuple[int, str, bytes] = (404, "text/plain", b"")

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, *self.says)


@dataclass
class Flow:
    """A client and the browser of a person, as far as a test drives them."""

    session: aiohttp.ClientSession
    base: str
    client_id: str = ""
    cookie: str = ""
    redirect_uri: str = CALLBACK
    asked: dict[str, str] = field(default_factory=dict[str, str])
    gateway: Gateway | None = None

    async def register(self, **body: Any) -> dict[str, Any]:
        given = {"client_name": "A <b>client</b>", "redirect_uris": [self.redirect_uri], **body}
        async with self.session.post(f"{self.base}/oauth/register", json=given) as answer:
            made = await answer.json()
            if answer.status == 201:
                self.client_id = made["client_id"]
            return {"status": answer.status, **made}

    async def visit(self, **changed: str) -> aiohttp.ClientResponse:
        """Open the consent page. A parameter that is empty is left out."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "st&te",
            "scope": "discover invoke",
            "resource": f"{self.base}/mcp",
            **changed,
        }
        self.asked = {name: value for name, value in asked.items() if value}
        return await self.session.get(
            f"{self.base}/oauth/authorize", params=self.asked, headers=self._cookies(), allow_redirects=False
        )

    async def sealed(self, **changed: str) -> str:
        page = await (await self.visit(**changed)).text()
        found = re.search(r'name="request" value="([^"]+)"', page)
        assert found, page
        return html.unescape(found[1])

    async def submit(self, sealed: str, **fields: Any) -> aiohttp.ClientResponse:
        usual = {"request": sealed, "decision": "approve", "credential": TOKEN, "scope": ["discover", "invoke"]}
        given: dict[str, list[str]] = {
            name: [value] if isinstance(value, str) else value for name, value in {**usual, **fields}.items()
        }
        pairs = [(name, value) for name, values in given.items() for value in values]
        headers = {"Origin": self.base, **self._cookies()}
        return await self.session.post(
            f"{self.base}/oauth/authorize", data=pairs, headers=headers, allow_redirects=False
        )

    async def code(self, **fields: Any) -> str:
        answer = await self.submit(await self.sealed(), **fields)
        assert answer.status == 303, await answer.text()
        return returned(answer)["code"]

    async def token(self, **form: str) -> tuple[int, dict[str, Any]]:
        async with self.session.post(f"{self.base}/oauth/token", data={"client_id": self.client_id, **form}) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            return answer.status, await answer.json()

    async def redeem(self, code: str, **form: str) -> tuple[int, dict[str, Any]]:
        usual = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect_uri}
        return await self.token(**{**usual, "code_verifier": VERIFIER, **form})

    async def refresh(self, token: str, **form: str) -> tuple[int, dict[str, Any]]:
        return await self.token(grant_type="refresh_token", refresh_token=token, **form)

    async def status(self, token: str) -> int:
        return (await Raw(self.session, f"{self.base}/mcp").post(INITIALIZE, token=token))[0]

    def _cookies(self) -> dict[str, str]:
        return {"Cookie": self.cookie} if self.cookie else {}


def returned(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """What the browser takes back to the client."""
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}


@asynccontextmanager
async def flow(open_gateway: OpenGateway, **options: Any) -> AsyncGenerator[tuple[Flow, Gateway]]:
    http = {"authorization": {"enabled": True}}
    async with open_gateway({"echo": peer("Echo")}, http=http, **options) as gateway, serve_http(gateway) as address:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            yield Flow(session, address.removesuffix("/mcp"), gateway=gateway), gateway


async def test_from_nothing_to_a_call(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        async with client.session.post(f"{client.base}/mcp", json=INITIALIZE, headers=ACCEPT) as answer:
            challenge = answer.headers["WWW-Authenticate"]
        (where,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        async with client.session.get(where) as answer:
            resource = await answer.json()
        assert resource["resource"] == f"{client.base}/mcp"
        (server,) = resource["authorization_servers"]
        async with client.session.get(f"{server}/.well-known/oauth-authorization-server") as answer:
            metadata = await answer.json()
        assert metadata["issuer"] == server
        assert metadata["code_challenge_methods_supported"] == ["S256"]
        assert (await client.register())["token_endpoint_auth_method"] == "none"

        page = await client.visit()
        text = await page.text()
        assert "A &lt;b&gt;client&lt;/b&gt;" in text
        assert "client.example" in text
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert "form-action 'self' https://client.example;" in page.headers["Content-Security-Policy"]
        assert (page.headers["X-Frame-Options"], "Set-Cookie" in page.headers) == ("DENY", False)

        answer = await client.submit(await client.sealed())
        assert answer.headers["Location"].startswith(f"{CALLBACK}?")
        back = returned(answer)
        assert (back["state"], back["iss"]) == ("st&te", client.base)
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith("__Host-wicket=")
        assert {"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} <= set(cookie.split("; "))

        status, issued = await client.redeem(back["code"])
        assert (status, issued["token_type"], issued["expires_in"]) == (200, "Bearer", 900)
        assert issued["scope"] == "discover invoke"
        raw = Raw(client.session, f"{client.base}/mcp")
        _, headers, _ = await raw.post(INITIALIZE, token=issued["access_token"])
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        _, _, body = await raw.post(call("echo.echo", message="hello"), session, token=issued["access_token"])
        assert body["result"]["content"][0]["text"] == "hello"
        acts = await gateway.store.find_calls(AuditQuery(method="admin"))
        assert [(act.principal, act.tool) for act in acts] == [("local", "grant")]
        assert TOKEN not in repr(acts)


async def test_refresh_tokens_rotate_and_a_replay_ends_the_family(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        _, first = await client.redeem(await client.code())
        _, second = await client.refresh(first["refresh_token"])
        assert await client.status(second["access_token"]) == 200
        status, problem = await client.refresh(first["refresh_token"])
        assert (status, problem["error"]) == (400, "invalid_grant")
        assert "used before" in problem["error_description"]
        assert (await client.refresh(second["refresh_token"]))[1]["error"] == "invalid_grant"
        assert [await client.status(each["access_token"]) for each in (first, second)] == [401, 401]
        (grant,) = await gateway.store.grants()
        assert grant.reason == "a refresh was used twice"


async def test_two_refreshes_at_once_are_a_replay(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        _, issued = await client.redeem(await client.code())
        answers = await asyncio.gather(*(client.refresh(issued["refresh_token"]) for _ in range(4)))
        won = [body for status, body in answers if status == 200]
        assert len(won) <= 1
        (grant,) = await gateway.store.grants()
        assert grant.revoked_at is not None
        assert [await client.status(body["access_token"]) for body in won] == [401] * len(won)


async def test_a_full_disk_costs_no_client_its_tokens(open_gateway: OpenGateway, state: Path) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        _, issued = await client.redeem(await client.code())
        [database] = state.glob("*.db")
        with closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON oauth_ticket BEGIN SELECT RAISE(ABORT, 'full'); END")
            other.commit()
            status, problem = await client.refresh(issued["refresh_token"])
            assert (status, problem["error"]) == (503, "temporarily_unavailable")
            assert issued["refresh_token"] not in json.dumps(problem)
            other.execute("DROP TRIGGER full")
            other.commit()
        assert (await client.refresh(issued["refresh_token"]))[0] == 200


async def test_a_code_counts_once(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        code = await client.code()
        _, issued = await client.redeem(code)
        assert (await client.redeem(code))[1]["error"] == "invalid_grant"
        assert await client.status(issued["access_token"]) == 401


@pytest.mark.parametrize(
    "form",
    [
        {"code_verifier": "w" * 64},
        {"code_verifier": ""},
        {"code_verifier": CHALLENGE},
        {"client_id": "wc_another"},
        {"redirect_uri": "https://client.example/other"},
    ],
)
async def test_a_code_counts_for_its_client_and_verifier_alone(open_gateway: OpenGateway, form: dict[str, str]) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        code = await client.code()
        status, problem = await client.redeem(code, **form)
        assert (status, problem["error"]) == (400, "invalid_grant")
        assert (await client.redeem("made-up"))[1]["error"] == "invalid_grant"
        if (
            "client_id" not in form
        ):  # who has stolen a code tries one verifier, not many; its client knows the right one
            status, problem = await client.redeem(code)
            assert (status, "was used before" in problem["error_description"]) == (400, True)


async def test_another_clients_refresh_token_is_not_used_up(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        _, issued = await client.redeem(await client.code())
        assert (await client.refresh(issued["refresh_token"], client_id="wc_thief"))[1]["error"] == "invalid_grant"
        assert (await client.refresh(issued["refresh_token"]))[0] == 200


async def test_fewer_scopes_may_be_asked_for_and_not_more(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        _, issued = await client.redeem(await client.code(scope=["discover"]))
        assert issued["scope"] == "discover"
        assert (await client.refresh(issued["refresh_token"], scope="discover invoke"))[1]["error"] == "invalid_scope"
        assert (await client.refresh(issued["refresh_token"]))[0] == 200  # nothing was used up
        assert (await client.refresh(issued["refresh_token"], scope="invoke"))[1]["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ],
)
async def test_what_goes_back_to_the_client_has_state_and_iss(
    open_gateway: OpenGateway, changed: dict[str, str], error: str
) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        back = returned(await client.visit(**changed))
        assert (back["error"], back["state"], back["iss"]) == (error, "st&te", client.base)


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "https://client.example/callback/"},
        {"redirect_uri": "https://client.example/callback?x=1"},
        {"redirect_uri": "https://client.example@evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"client_id": "wc_unknown"},
        {"client_id": ""},
        {"client_id": "https://127.0.0.1/client.json"},
        {"client_id": "http://169.254.169.254/latest/meta-data"},
    ],
)
async def test_a_wrong_client_or_address_leads_nowhere(open_gateway: OpenGateway, changed: dict[str, str]) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        answer = await client.visit(**changed)
        assert (answer.status, "Location" in answer.headers) == (400, False)
        assert "evil.example" not in answer.headers["Content-Security-Policy"]
        assert "<form" not in await answer.text()


async def test_a_second_clients_redirect_is_refused(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        other = Flow(client.session, client.base, redirect_uri="https://other.example/back")
        await other.register()
        assert (await client.visit(redirect_uri=other.redirect_uri)).status == 400


async def test_a_repeated_parameter_is_refused(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        await client.register()
        await client.visit()
        pairs = [*client.asked.items(), ("redirect_uri", "https://evil.example")]
        async with client.session.get(f"{client.base}/oauth/authorize", params=pairs, allow_redirects=False) as answer:
            assert (answer.status, "Location" in answer.headers) == (400, False)


async def test_the_page_counts_once_and_unchanged(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        sealed = await client.sealed()
        assert (await client.submit(sealed)).status == 303
        again = await client.submit(sealed)
        assert (again.status, "used already" in await again.text()) == (400, True)
        flipped = sealed[:60] + ("A" if sealed[60] != "A" else "B") + sealed[61:]
        for forged in (flipped, "", "made up", sealed[:20]):
            assert (await client.submit(forged)).status == 400
        assert len(await gateway.store.grants()) == 1


async def test_a_page_of_another_browser_does_not_count(open_gateway: OpenGateway) -> None:
    """An attacker's page, posted by the browser of somebody who has signed in: their cookie must not approve it."""
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        attackers = await client.sealed()
        answer = await client.submit(await client.sealed())
        client.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert (await client.submit(attackers, credential="")).status == 400
        own = await client.submit(await client.sealed(), credential="")
        assert own.status == 303
        assert len(await gateway.store.grants()) == 2


async def test_a_form_of_another_site_is_refused(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        sealed = await client.sealed()
        other_port = client.base.rpartition(":")[0] + ":1"
        for origin in ("https://evil.example", "null", other_port, ""):
            form = {"request": sealed, "decision": "approve", "credential": TOKEN, "scope": "invoke"}
            headers = {"Origin": origin} if origin else {}
            async with client.session.post(
                f"{client.base}/oauth/authorize", data=form, headers=headers, allow_redirects=False
            ) as answer:
                assert (answer.status, "Location" in answer.headers) == (400, False)
                assert "Access-Control-Allow-Origin" not in answer.headers
        assert await gateway.store.grants() == []


async def test_who_does_not_sign_in_gets_no_code(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        sealed = await client.sealed()
        for credential in ("", "wrong", "wk_wrong"):
            answer = await client.submit(sealed, credential=credential)
            assert (answer.status, "Location" in answer.headers, "Set-Cookie" in answer.headers) == (401, False, False)
        rejected = await gateway.store.find_calls(AuditQuery(method="auth"))
        assert [record.outcome for record in rejected] == ["rejected"] * 3
        assert "wk_wrong" not in repr(rejected)
        denied = await client.submit(sealed, decision="deny", credential="")
        assert returned(denied)["error"] == "access_denied"
        assert returned(await client.submit(sealed))["code"]
        assert len(await gateway.store.grants()) == 1


async def test_an_api_key_approves_what_it_may_and_its_end_is_the_grants(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        key, _ = await gateway.registry.keys.create("ann", ["discover"])
        _, issued = await client.redeem(await client.code(credential=key))
        assert issued["scope"] == "discover"
        assert await client.status(issued["access_token"]) == 200
        await gateway.registry.keys.revoke("ann")
        assert await client.status(issued["access_token"]) == 401
        assert (await client.refresh(issued["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_a_client_signs_out(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        _, issued = await client.redeem(await client.code())
        form = {"token": issued["refresh_token"], "client_id": client.client_id}
        async with client.session.post(f"{client.base}/oauth/revoke", data=form) as answer:
            assert answer.status == 200
        assert await client.status(issued["access_token"]) == 401
        assert await revocations(gateway) == ["the client signed out"]


async def revocations(gateway: Gateway) -> list[str]:
    """Why grants were revoked, as the audit says."""
    records = await gateway.store.find_calls(AuditQuery(principal="local"))
    return [record.detail.rpartition("): ")[2] for record in records if record.tool == "revoke grant"]


async def test_the_command_lists_and_revokes_while_the_gateway_runs(open_gateway: OpenGateway, shell: Shell) -> None:
    async with flow(open_gateway) as (client, gateway):
        await client.register()
        _, issued = await client.redeem(await client.code())
        config = shell.cwd / "wicket.toml"
        config.write_text(f"state_dir = {json.dumps(str(gateway.config.state_path))}\n")
        (shown,) = shell.run("grants", "list", "--json").json
        assert (shown["principal"], shown["state"], shown["scopes"]) == ("local", "active", ["discover", "invoke"])
        assert issued["access_token"] not in str(shown)
        assert shell.run("grants", "revoke", shown["id"], "--json").json["state"] == "revoked"
        assert await client.status(issued["access_token"]) == 401
        assert await revocations(gateway) == ["revoked"]
        assert shell.run("grants", "revoke", shown["id"]).code == 2
        assert shell.run("whoami", "--json").json["principal"] == "local"


@pytest.mark.parametrize("path", ["/client.json", "/.well-known/client.json", "/a..b/.c"])
async def test_a_client_is_known_by_the_document_that_it_publishes(open_gateway: OpenGateway, path: str) -> None:
    document: dict[str, Any] = {"client_name": "Published", "redirect_uris": [CALLBACK]}
    async with Site() as site:
        address = f"{site.origin}{path}"
        options = {"registry": {"allowed_addresses": ["127.0.0.1"]}}
        async with flow(open_gateway, **options) as (client, _):
            client.client_id = address
            site.says = 200, "text/html", b"<html>"
            assert (await client.visit()).status == 400
            for claimed, status in ((f"{address}x", 400), (address, 200)):
                body = json.dumps({**document, "client_id": claimed}).encode()
                site.says = 200, "application/json", body
                assert (await client.visit()).status == status


async def test_a_document_is_fetched_once_in_five_minutes_and_not_endlessly_for_one_address(
    open_gateway: OpenGateway,
) -> None:
    """W29."""
    async with Site() as site:
        options = {"registry": {"allowed_addresses": ["127.0.0.1"]}}
        async with flow(open_gateway, **options) as (client, _):
            client.client_id = f"{site.origin}/client.json"
            document = {"client_id": client.client_id, "redirect_uris": [CALLBACK]}
            site.says = 200, "application/json", json.dumps(document).encode()
            answers = await asyncio.gather(*(client.visit() for _ in range(20)))
            assert ([answer.status for answer in answers], len(site.received)) == ([200] * 20, 1)
            for number in range(PER_HOUR):
                assert (await client.visit(client_id=f"{client.client_id}?{number}")).status == 400
            assert len(site.received) == PER_HOUR
            assert "Too much was asked for" in await (await client.visit(client_id=f"{client.client_id}?x")).text()
            assert ((await client.visit()).status, len(site.received)) == (200, PER_HOUR)  # who is known stays known


@pytest.mark.parametrize(
    "address",
    [
        "http://client.example/client.json",
        "https://client.example",
        "https://client.example/a/../client.json",
        "https://client.example/a/%2E%2e/client.json",
        "https://client.example/./client.json",
        "https://client.example/client.json#x",
        "https://user@client.example/client.json",
        "https://[",
    ],
)
async def test_a_client_is_named_by_a_plain_https_address_alone(open_gateway: OpenGateway, address: str) -> None:
    async with flow(open_gateway) as (client, _):
        answer = await client.visit(client_id=address)
        assert (answer.status, "not the https address" in await answer.text()) == (400, True)


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://client.example/callback",
        "https://client.example/callback#x",
        "https://user@client.example/",
        "https://client.example/;frame-ancestors *",
        "https://client.example/\r\nSet-Cookie: a=b",
        "//client.example/callback",
        "/callback",
        "",
        "https://[",
        7,
    ],
)
def test_a_redirect_that_could_hurt_cannot_be_registered(uri: Any) -> None:
    with pytest.raises(BadArguments):
        check_redirects([CALLBACK, uri])


@pytest.mark.parametrize("uri", [CALLBACK, "http://127.0.0.1:1234/cb", "http://localhost/cb", "cursor://anysphere/cb"])
def test_a_redirect_of_web_desktop_and_command_line_clients_can_be_registered(uri: str) -> None:
    assert check_redirects([uri]) == (uri,)


async def test_the_port_of_a_loopback_address_is_free_and_nothing_else(open_gateway: OpenGateway) -> None:
    async with flow(open_gateway) as (client, _):
        client.redirect_uri = "http://127.0.0.1:1000/cb"
        await client.register()
        statuses = [
            (await client.visit(redirect_uri=uri)).status
            for uri in (
                "http://127.0.0.1:9999/cb",
                "http://127.0.0.1/cb",
                "http://localhost:1000/cb",
                "http://127.0.0.1:1/x",
            )
        ]
        assert statuses == [200, 200, 400, 400]


@pytest.mark.parametrize("body", [{}, {"redirect_uris": []}, {"redirect_uris": "x"}, {"redirect_uris": [None]}])
async def test_a_registration_without_addresses_is_refused(open_gateway: OpenGateway, body: dict[str, Any]) -> None:
    async with flow(open_gateway) as (client, _):
        async with client.session.post(f"{client.base}/oauth/register", json=body) as answer:
            assert (answer.status, (await answer.json())["error"]) == (400, "invalid_redirect_uri")
        async with client.session.post(f"{client.base}/oauth/register", data=b"{") as answer:
            assert (answer.status, (await answer.json())["error"]) == (400, "invalid_client_metadata")


@pytest.mark.promise("T23", "Registering client after client stops no other client's sign-in.")
async def test_t23_whoever_registers_clients_without_end_drops_none_of_others(open_gateway: OpenGateway) -> None:
    """W11."""
    async with flow(open_gateway) as (client, _):
        await client.register()
        early, sealed = client.client_id, await client.sealed()
        statuses = [(await client.register())["status"] for _ in range(MAX_CLIENTS + 1)]
        assert statuses == [201] * (PER_HOUR - 1) + [429] * (MAX_CLIENTS + 2 - PER_HOUR)
        client.client_id = early
        code = returned(await client.submit(sealed))["code"]
        assert (await client.redeem(code))[0] == 200
        assert (await client.visit()).status == 200


async def test_only_json_is_registered(open_gateway: OpenGateway) -> None:
    """W11: a page of any site can post text without being asked for leave."""
    async with flow(open_gateway) as (client, _):
        body = json.dumps({"redirect_uris": [CALLBACK]})
        for kind, status in (("text/plain", 400), ("application/json; charset=utf-8", 201)):
            headers = {"Content-Type": kind, "Origin": "https://evil.example"}
            async with client.session.post(f"{client.base}/oauth/register", data=body, headers=headers) as answer:
                assert answer.status == status


async def test_it_is_off_unless_it_is_turned_on(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address, aiohttp.ClientSession() as session:
        auth = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("/oauth/authorize", "/oauth/token", "/.well-known/oauth-authorization-server"):
            async with session.get(address.replace("/mcp", path), headers=auth) as answer:
                assert answer.status == 404
