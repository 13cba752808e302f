"""Two users, known by tokens of an identity provider or by API keys, with canaries for credentials: every byte that any
server got is searched, after load, reload, refresh, revocation, scripts, cache, fallback, probes and listings.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS, ROOT, OpenGateway
from tests.gateway.serving import META, TOKEN, Raw, raw_client, serve_http
from tests.identity.browser import browse
from tests.identity.test_dashboard_sign_in import Visitor
from tests.peers.identity_provider import IdentityProvider
from tests.peers.protected import Protected
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.identity.claims import person_name
from wicket_mcp.model import SCOPES, JsonObject, Principal

CANARY = re.compile(r"canary-(ann|bob)-")
SCRIPT = "return {x.whoami({}):await(), child.whose({}):await()}"
KINDS = {"a person and a key": ("person", "key"), "two people": ("person", "person"), "two keys": ("key", "key")}


class Both(Protected):
    """Its tools are those of the remote server and of the local one."""

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        outcome = super().answer(method, params, account)
        if method == "tools/list":
            outcome["result"]["tools"].append({"name": "whose", "inputSchema": {"type": "object"}})
        return outcome


@dataclass
class User:
    """Somebody who uses the gateway over HTTP."""

    name: str
    token: str
    principal: Principal
    client: Raw

    async def use(self, tool: str, **arguments: Any) -> str:
        """A tool of the gateway's own menu; its text, or the error's."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        _, _, body = await self.client.post(message, routing, token=self.token)
        return body["result"]["content"][0]["text"]

    async def call(self, name: str) -> str:
        return await self.use("call_tool", name=name)


@dataclass
class House:
    """The gateway, its users and its servers."""

    gateway: Gateway
    users: tuple[User, User]
    remote: Protected
    first: Protected
    """Shared by all; when it is gone, its fallback is the other."""
    servers: dict[str, Any]
    http: dict[str, Any]
    children: Path
    """What the local server's processes got."""
    leaving: AsyncExitStack
    """Ends the shared server."""

    async def all_ask(self, name: str, times: int = 10) -> None:
        """Everybody at once, many times: each gets what is theirs."""
        asked = self.users * times
        said = await asyncio.gather(*(user.call(name) for user in asked))
        assert [text.split()[0].split("-")[-2:][0] for text in said] == [user.name for user in asked]

    def apply(self, **options: Any) -> None:
        servers = {**self.servers, "x": {**self.servers["x"], **options}}
        state = str(self.gateway.config.state_path)
        self.gateway.apply(Config.from_dict({"servers": servers, "http": self.http, "state_dir": state}))

    def check_every_byte(self) -> None:
        """No request and no process has canaries of two people, and none has what a client came with."""
        said = [request.whole for remote in (self.remote, self.first) for request in remote.received]
        said += [file.read_text() for file in self.children.iterdir()]
        fronts = [TOKEN, *(user.token for user in self.users)]
        for text in said:
            assert len(set(CANARY.findall(text))) <= 1, text
            assert not [token for token in fronts if token in text], text
        assert {name for text in said for name in CANARY.findall(text)} == {"ann", "bob"}

    async def check_what_is_shown(self) -> None:
        """No canary is in the metrics, on a page of the dashboard, or in the arguments of a process."""
        client = self.users[0].client
        root = client.address.removesuffix("/mcp")
        async with client.session.get(f"{root}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            shown = {"metrics": await answer.text()}
        assert "wicket_calls_total" in shown["metrics"]
        for token in (TOKEN, *(user.token for user in self.users)):
            visitor = Visitor(client.session, root)
            assert (await visitor.ask("POST", f"{root}/ui/sign-in", token=token))[0] == 303
            for page in ("", "/servers", "/servers/x", "/servers/child", "/activity", "/access", "/tools"):
                status, shown[page] = await visitor.get(f"/ui{page}")
                assert (page, status) == (page, 200)
                assert "canary-" not in shown[page], page
        alive = [Path("/proc", file.name, "cmdline") for file in self.children.iterdir()]
        shown |= {str(path): path.read_text() for path in alive if path.exists()}
        assert not Path("/proc").exists() or [place for place in shown if place.startswith("/proc")]
        assert not [place for place, text in shown.items() if "canary-" in text]


async def sign_in(house: House, user: User, server: str, at: Protected) -> None:
    at.account = user.name
    config = house.gateway.catalogue.server(server)
    pending = await house.gateway.accounts.sign_ins.begin(config, user.principal)
    await browse(pending.link)
    await pending.wait()


async def give_key(user: User, server: str) -> None:
    """What a person does in the browser whose call says that keys are missing."""
    root, said = user.client.address.removesuffix("/mcp"), await user.call(f"{server}.whose")
    assert f"Give your keys at {root}/ui/servers/{server} " in said
    visitor = Visitor(user.client.session, root)
    assert (await visitor.ask("POST", f"{root}/ui/sign-in", token=user.token))[0] == 303
    _, page = await visitor.get(f"/ui/servers/{server}")
    (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
    key = {"key KEY": f"canary-{user.name}-key"}
    address = f"{root}/ui/servers/{server}/keys"
    assert (await visitor.ask("POST", address, csrf="of another page", **key))[0] == 403
    assert (await visitor.ask("POST", address, csrf=csrf, **{"key KEY": " "}))[0] == 400
    assert (await visitor.ask("POST", address, csrf=csrf, **key))[::2] == (303, f"/ui/servers/{server}")
    _, page = await visitor.get(f"/ui/servers/{server}")
    assert ("New ones replace" in page, "canary" in page) == (True, False)


@asynccontextmanager
async def housed(open_gateway: OpenGateway, folder: Path, kinds: tuple[str, str]) -> AsyncGenerator[House]:
    children = folder / "children"
    children.mkdir()
    async with Protected() as remote, IdentityProvider() as provider, AsyncExitStack() as leaving:
        first = await leaving.enter_async_context(Both())
        child = {"command": sys.executable, "args": [str(PEERS / "key_server.py"), str(children)], "cwd": str(ROOT)}
        servers: dict[str, Any] = {
            "x": {"url": remote.url, "credentials": "user", "cache": {"whoami": "1s"}},
            "y": {"url": remote.url, "credentials": "user"},
            "first": {"url": first.url, "fallback": ["x", "child"]},
            "child": {**child, "required_keys": ["KEY"], "credentials": "user", "cache": {"whose": "1s"}},
        }
        http: dict[str, Any] = {"issuers": [{"issuer": provider.issuer}], "port": 0}
        async with open_gateway(servers, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:

                async def user(name: str, kind: str) -> User:
                    if kind == "person":
                        principal = Principal(person_name(provider.issuer, name), SCOPES)
                        return User(name, provider.token(aud=address, sub=name), principal, client)
                    key, kept = await gateway.registry.keys.create(name, ["discover", "invoke"])
                    return User(name, key, Principal(name, SCOPES, holder=kept.holder), client)

                users = (await user("ann", kinds[0]), await user("bob", kinds[1]))
                yield House(gateway, users, remote, first, servers, http, children, leaving)


@pytest.mark.parametrize("kinds", KINDS)
async def test_no_byte_of_one_users_credentials_is_where_the_others_belong(
    open_gateway: OpenGateway, tmp_path: Path, kinds: str
) -> None:
    async with housed(open_gateway, tmp_path, KINDS[kinds]) as house:
        ann, bob = house.users
        for user in house.users:
            for server in ("x", "y"):
                await sign_in(house, user, server, house.remote)
            await give_key(user, "child")
        await sign_in(house, ann, "first", house.first)

        for name in ("x.whoami", "y.whoami", "child.whose"):  # load, and x from the cache
            await house.all_ask(name)
        house.remote.tokens.clear()  # refresh, under load
        await asyncio.gather(house.all_ask("x.whoami"), house.all_ask("y.whoami"))
        for user in house.users:  # scripts
            said = await user.use("run_script", language="lua", code=SCRIPT)
            assert said.count(user.name) == 2, said  # the remote account, and the local key
        for server in ("x", "y", "child"):  # listings, by whoever can
            for user in house.users:
                await house.gateway.catalogue.renew(server, user.principal)
        assert await house.gateway.registry.probes.round() == {"x", "y"}
        assert all(seen.ok for seen in await house.gateway.store.observations("y", 0.0))  # a probe has no account
        loaded = asyncio.gather(*(house.all_ask(name) for name in ("x.whoami", "y.whoami", "child.whose")))
        house.apply(description="changed", timeout="5s")  # reload, under load
        await loaded
        assert [await user.call("first.whoami") for user in house.users] == ["ann", "ann"]  # an account for all
        await house.leaving.aclose()  # fallback: each has their own again
        assert [await user.call("first.whoami") for user in house.users] == ["ann", "bob"]
        keys = [await user.call("first.whose") for user in house.users]
        assert [key.split()[0] for key in keys] == ["canary-ann-key", "canary-bob-key"]

        revoked = {token for token, issued in house.remote.tokens.items() if issued.account == "ann"}
        for token in revoked:
            del house.remote.tokens[token]
        house.remote.refresh_tokens = {
            token: issued for token, issued in house.remote.refresh_tokens.items() if issued.account == "bob"
        }
        house.apply(cache={})
        said = await asyncio.gather(*(user.call("y.whoami") for user in house.users * 5))
        assert all("sign in" in text.lower() or "sign-in" in text for text in said[::2]), said
        assert set(said[1::2]) == {"bob"}
        assert await house.gateway.accounts.sign_ins.sign_out(house.gateway.catalogue.server("child"), ann.principal)
        said = await asyncio.gather(*(user.call("child.whose") for user in house.users * 5))
        assert all("sign-in" in text for text in said[::2]), said
        assert {text.split()[0] for text in said[1::2]} == {f"canary-{bob.name}-key"}
        assert await house.gateway.registry.probes.round()
        house.check_every_byte()
        await house.check_what_is_shown()
