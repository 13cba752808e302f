"""A sign-in in the middle of a call: how clients are asked, who may, and which browser comes back."""

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext

from tests.conftest import OpenGateway
from tests.gateway.serving import META, TOKEN, raw_client, serve_http
from tests.identity.browser import browse, jar
from tests.identity.test_sign_in import text_of
from tests.peers.protected import IgnoresResource, Moves, Protected
from wicket_mcp.errors import Denied
from wicket_mcp.model import LOCAL, SCOPES, Principal


async def visit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestURLParams)
    status, _ = await browse(params.url)
    return types.ElicitResult(action="accept" if status == 200 else "cancel")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_asks_for_the_sign_in_and_goes_on(mode: Any, open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        async with serve_http(gateway, token=None) as address:
            async with Client(address, mode=mode, elicitation_callback=visit) as client:
                result = await client.call_tool("call_tool", {"name": "x.whoami"})
        assert [block.text for block in result.content if isinstance(block, types.TextContent)] == ["ann"]
        assert not result.is_error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_cannot_be_asked_gets_the_address(mode: Any, open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        async with serve_http(gateway, token=None) as address, Client(address, mode=mode) as client:
            refused = await client.call_tool("call_tool", {"name": "x.whoami"})
            assert refused.is_error
            [block] = refused.content
            assert isinstance(block, types.TextContent)
            [link] = re.findall(r"http://\S+/oauth/start/\S+", block.text)
            again = await client.call_tool("call_tool", {"name": "x.whoami"})
            assert again.content == refused.content  # not another link, another client, another sign-in
            assert len(remote.seen("/register")) == 1
            assert (await browse(link))[0] == 200
            result = await client.call_tool("call_tool", {"name": "x.whoami"})
        assert not result.is_error


async def test_an_account_that_all_share_is_chosen_by_the_owner_alone(open_gateway: OpenGateway) -> None:
    servers = {"x": {"url": ""}, "own": {"url": "", "credentials": "user"}}
    async with Protected() as remote:
        for options in servers.values():
            options["url"] = remote.url
        async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as http:
            key, _ = await gateway.registry.keys.create("bob", ["discover", "invoke"])

            async def call(name: str, token: str) -> str:
                params = {"name": "call_tool", "arguments": {"name": name}, "_meta": META}
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_tool"}
                _, _, body = await http.post(message, routing, token=token)
                return text_of(body["result"])

            assert "/oauth/start/" in await call("own.whoami", key)
            refused = await call("x.whoami", key)
            assert ("/oauth/start/" in refused, "Ask the owner" in refused) == (False, True)
            bob, server = Principal("bob", frozenset({"discover", "invoke"})), gateway.catalogue.server("x")
            for attempt in (gateway.accounts.sign_ins.begin, gateway.accounts.sign_ins.sign_out):
                with pytest.raises(Denied, match="only its owner"):
                    await attempt(server, bob)
            assert "/oauth/start/" in await call("x.whoami", TOKEN)


async def test_over_stdio_the_browser_comes_back_to_a_port_of_its_own(tmp_path: Path) -> None:
    async with Protected() as remote:
        config = tmp_path / "wicket.toml"
        config.write_text(f'state_dir = "state"\n[servers.x]\nurl = "{remote.url}"\n')
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "wicket_mcp", "serve", "--no-daemon", "--config", str(config)]
        )
        async with Client(command, elicitation_callback=visit) as client:
            result = await client.call_tool("call_tool", {"name": "x.whoami"})
        assert not result.is_error, result.content


async def test_a_page_says_whose_account_it_will_be(open_gateway: OpenGateway) -> None:
    servers = {"x": {"url": "", "credentials": "user"}}
    async with Protected() as remote:
        servers["x"]["url"] = remote.url
        async with open_gateway(servers) as gateway, serve_http(gateway, token=None):
            bob = Principal("person:1f", SCOPES, label="bob <b>")  # a digest would tell nobody who it is
            pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), bob)
            async with aiohttp.ClientSession() as session, session.get(pending.link) as answer:
                text = await answer.text()
                assert answer.headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
            assert "bob &lt;b&gt;" in text
            async with aiohttp.ClientSession() as session, session.get(f"{pending.link}?go") as answer:
                assert "bob &lt;b&gt;" in await answer.text()  # no link skips the page
            assert not remote.seen("/authorize")
            await browse(pending.link)
            await pending.wait()
            assert (await browse(pending.link))[0] == 404


@pytest.mark.parametrize("over", ["http", "a loopback port"])
@pytest.mark.promise("T9", "A sign-in is finished only by the browser that began it.")
async def test_t9_a_callback_is_taken_from_the_browser_that_began_alone(open_gateway: OpenGateway, over: str) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        async with serve_http(gateway, token=None) if over == "http" else nullcontext():
            pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
            assert (await browse(pending.begun.url))[0] == 403  # straight to the provider: it never opened our link
            assert not remote.seen("/token")
            assert (await browse(pending.link))[0] == 200
            await pending.wait()


@pytest.mark.parametrize("over", ["http", "a loopback port"])
async def test_a_page_asks_where_a_server_names_the_place_at_which_one_signs_in_for_another(
    open_gateway: OpenGateway, over: str
) -> None:
    """W27: what the second server gets there may work at the first one."""
    async with IgnoresResource() as good, Moves() as evil:
        evil.other = good
        servers = {"good": {"url": good.url}, "evil": {"url": evil.url}, "again": {"url": good.url}}
        async with open_gateway(servers) as gateway:
            async with serve_http(gateway, token=None) if over == "http" else nullcontext():
                begin = gateway.accounts.sign_ins.begin
                first = await begin(gateway.catalogue.server("good"), LOCAL)
                assert (await browse(first.link))[0] == 200
                await first.wait()
                again = await begin(gateway.catalogue.server("again"), LOCAL)
                async with aiohttp.ClientSession() as session:
                    async with session.get(again.link, allow_redirects=False) as answer:
                        assert answer.status == 302  # the same server
                    pending, asked = await begin(gateway.catalogue.server("evil"), LOCAL), len(good.seen("/authorize"))
                    async with session.get(pending.link) as answer:
                        text = await answer.text()
                    place, server = good.origin.removeprefix("http://"), evil.origin.removeprefix("http://")
                    assert (
                        f"sign in to &#x27;evil&#x27; ({server}) at {place}. You also sign in to {good.origin}" in text
                    )
                    wrong = {"Origin": "http://127.0.0.1:1"}
                    async with session.post(pending.link, data={"nonce": ""}, headers=wrong) as answer:
                        assert answer.status == 403
                assert len(good.seen("/authorize")) == asked
                assert (await browse(pending.link))[0] == 200  # who presses the button goes on
                await pending.wait()


async def test_a_browser_may_be_on_the_way_to_two_servers_at_once(open_gateway: OpenGateway) -> None:
    async with Protected() as first, Protected() as second:
        servers = {"x": {"url": first.url}, "y": {"url": second.url}}
        async with open_gateway(servers) as gateway, aiohttp.ClientSession(cookie_jar=jar()) as browser:
            begun = [await gateway.accounts.sign_ins.begin(gateway.catalogue.server(name), LOCAL) for name in servers]
            pages: list[str] = []
            for pending in begun:
                async with browser.get(pending.link, allow_redirects=False) as answer:
                    pages.append(answer.headers["Location"])
            for pending, page in zip(begun, pages, strict=True):
                async with browser.get(page) as answer:
                    assert (answer.status, "You are signed in to" in await answer.text()) == (200, True)
                await pending.wait()
