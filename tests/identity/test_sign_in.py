"""Signing in to remote servers: said wherever it is missing, done once, renewed unnoticed, never another's."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway
from tests.gateway.serving import serve_http
from tests.identity.browser import browse
from tests.peers.protected import (
    AnswersForAnother,
    BindsToNoKey,
    EndsReplayed,
    ForgetsClients,
    HtmlAnswer,
    HtmlMetadata,
    LastsForever,
    MetadataDown,
    NamesNobody,
    NoS256,
    Protected,
    ProviderDown,
    Refuses,
    RefusesForAnother,
    RefusesWith200,
    SlowToken,
    WantsEver,
    WrongIssuer,
)
from wicket_mcp import Gateway
from wicket_mcp.errors import NeedsSignIn, SignInFailed, WicketError
from wicket_mcp.identity.oauth.client import OAuthClient
from wicket_mcp.identity.oauth.messages import Client as Registered
from wicket_mcp.identity.oauth.messages import Grant
from wicket_mcp.model import LOCAL
from wicket_mcp.sealing import Ring
from wicket_mcp.tasks import Tasks


async def sign_in(gateway: Gateway, server: str = "x") -> None:
    """What `wicket login` does, with this browser."""
    pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server(server), gateway.principal)
    await browse(pending.link)
    await pending.wait()


def text_of(result: Any) -> str:
    return result["content"][0]["text"]


async def test_a_missing_sign_in_is_said_everywhere_until_it_is_there(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        with pytest.raises(NeedsSignIn, match="wicket login x"):
            await gateway.call("x.whoami")
        [status] = await gateway.servers()
        assert (status.state, status.tools) == ("needs sign-in", None)
        assert "wicket login x" in status.problem
        assert "Needs sign-in (wicket login NAME): x" in await gateway.instructions()
        await sign_in(gateway)
        assert text_of(await gateway.call("x.whoami")) == "ann"
        [status] = await gateway.servers()
        assert (status.state, status.tools, status.problem) == ("ready", 1, "")
        assert "sign-in" not in await gateway.instructions()


async def test_another_process_knows_a_sign_in_and_its_end(open_gateway: OpenGateway) -> None:
    async with Protected() as remote:
        config = {"x": {"url": remote.url}}
        async with open_gateway(config) as gateway:
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"
        async with open_gateway(config) as gateway:
            assert text_of(await gateway.call("x.whoami")) == "ann"
            assert await gateway.accounts.sign_ins.sign_out(gateway.catalogue.server("x"), LOCAL)
            with pytest.raises(NeedsSignIn):
                await gateway.call("x.whoami")
        async with open_gateway(config) as gateway:
            [status] = await gateway.verbs.servers(LOCAL)  # asks no server
            assert (status.state, status.tools) == ("needs sign-in", 1)


async def test_a_token_is_renewed_once_for_all_who_wait(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        await gateway.call("x.whoami")
        remote.tokens.clear()  # the server forgets every access token
        answers = await asyncio.gather(*(gateway.call("x.whoami") for _ in range(20)))
        assert {text_of(answer) for answer in answers} == {"ann"}
        assert len(remote.seen("/token")) == 2  # the sign-in, and one renewal
        assert gateway.accounts.refreshes == {("x", "ok"): 1}


async def test_a_token_is_renewed_once_by_several_processes(open_gateway: OpenGateway) -> None:
    """Else a server that ends a sign-in whose refresh token comes twice would sign everybody out."""
    servers = {"x": {"url": ""}}
    async with EndsReplayed() as remote:
        servers["x"]["url"] = remote.url
        async with open_gateway(servers) as here, open_gateway(servers) as there:
            await sign_in(here)
            for gateway in (here, there):
                assert text_of(await gateway.call("x.whoami")) == "ann"
            for renewals in range(1, 4):
                remote.tokens.clear()
                answers = await asyncio.gather(*(each.call("x.whoami") for each in (here, there) * 5))
                assert {text_of(answer) for answer in answers} == {"ann"}
                assert len(remote.seen("/token")) == 1 + renewals


async def test_a_process_that_died_while_it_renewed_stops_no_other(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        await gateway.call("x.whoami")
        (refresh,) = remote.refresh_tokens
        assert await gateway.accounts.waiting.claim("renewal", refresh, 0.3)
        remote.tokens.clear()
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_token_is_renewed_before_its_end(open_gateway: OpenGateway) -> None:
    async with Protected(lifetime=0) as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        remote.lifetime = 3600
        assert text_of(await gateway.call("x.whoami")) == "ann"
        assert len(remote.seen("/token")) == 2
        assert not [one for one in remote.seen("/mcp") if one.token and one.token not in remote.tokens]


@pytest.mark.parametrize("kind", [Protected, RefusesWith200])
async def test_a_revoked_sign_in_is_said_and_the_tools_stay_known(
    open_gateway: OpenGateway, kind: type[Protected]
) -> None:
    async with kind() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        await gateway.call("x.whoami")
        remote.tokens.clear()
        remote.refresh_tokens.clear()
        with pytest.raises(NeedsSignIn, match="revoked.*wicket login x"):
            await gateway.call("x.whoami")
        [status] = await gateway.servers()
        assert (status.state, status.tools) == ("needs sign-in", 1)
        answer = await gateway.verbs.search("whose account is used", principal=LOCAL)
        assert [entry.reason for entry in answer.withheld if "wicket login x" in entry.reason]
        await sign_in(gateway)
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_server_that_forgot_us_is_registered_at_again(open_gateway: OpenGateway) -> None:
    async with ForgetsClients() as remote:
        servers = {"x": {"url": remote.url}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"
            remote.clients.clear()
            remote.tokens.clear()
            with pytest.raises(NeedsSignIn):  # the refresh token is worth nothing any more
                await gateway.call("x.whoami")
            assert (await gateway.servers())[0].state == "needs sign-in"
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"
            assert len(remote.seen("/register")) == 2
            remote.clients.clear()
            pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
            assert (await browse(pending.link))[0] == 400  # and nobody comes back to us
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)
            assert len(remote.seen("/register")) == 3


async def test_more_rights_are_asked_for_together_with_the_earlier_ones(open_gateway: OpenGateway) -> None:
    config = {"x": {"url": "", "auth": {"scopes": ["read"]}}}
    async with Protected(scope="read") as remote:
        config["x"]["url"] = remote.url
        async with open_gateway(config) as gateway:
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"
            remote.scope = "write"
            with pytest.raises(NeedsSignIn, match="more rights"):
                await gateway.call("x.whoami")
        del config["x"]["auth"]
        async with open_gateway(config) as gateway:
            with pytest.raises(NeedsSignIn):
                await gateway.call("x.whoami")
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"
        assert [set(asked.split()) for asked in remote.asked_scopes] == [{"read"}, {"read", "write"}]


async def test_more_rights_are_asked_for_three_times_at_most(open_gateway: OpenGateway) -> None:
    async with WantsEver() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        for _ in range(3):
            with pytest.raises(NeedsSignIn):
                await gateway.call("x.whoami")
            await sign_in(gateway)
        with pytest.raises(NeedsSignIn, match="more rights"):
            await gateway.call("x.whoami")
        with pytest.raises(SignInFailed, match="again and again"):
            await sign_in(gateway)
        assert len(remote.asked_scopes) == 3
        assert [len(asked.split()) for asked in remote.asked_scopes] == [0, 1, 2]


@pytest.mark.promise(
    "T9", "An authorization server with a false identity, or one that answers for another, gets nothing."
)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (WrongIssuer, "says that it is another one"),
        (NoS256, "PKCE"),
        (HtmlAnswer, "without a token"),
        (HtmlMetadata, "nothing says where to sign in"),
        (MetadataDown, "could not be found out: HTTP 503"),
        (AnswersForAnother, "did not come from the authorization server"),
        (RefusesForAnother, "did not come from the authorization server"),
        (NamesNobody, "did not come from the authorization server"),
        (BindsToNoKey, "without a token"),
        (Refuses, "access_denied"),
    ],
)
async def test_t9_what_cannot_be_trusted_is_not_used(
    fault: type[Protected], words: str, open_gateway: OpenGateway
) -> None:
    async with fault() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        with pytest.raises(SignInFailed, match=words):
            await sign_in(gateway)
        with pytest.raises(NeedsSignIn):
            await gateway.call("x.whoami")
        assert await gateway.accounts.sign_ins.keep.grant("shared", "x", remote.url) is None


async def test_a_provider_that_is_slow_is_waited_for_so_long() -> None:
    async with SlowToken() as remote:
        oauth = OAuthClient("x", remote.url, timeout=0.2)
        client = Registered(issuer=remote.origin, client_id="client-1", auth_method="none")
        grant = Grant(url=remote.url, resource=remote.url, client=client, token_endpoint=f"{remote.origin}/token")
        with pytest.raises(SignInFailed, match=r"did not answer within 0.2 s\. Try again later"):
            await oauth.token(grant, {"grant_type": "authorization_code", "code": "c"})
        remote.released.set()
        await oauth.close()


async def test_a_provider_that_is_not_there_says_so(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        with pytest.raises(NeedsSignIn):
            await gateway.call("x.whoami")
        await remote.__aexit__(None, None, None)
        with pytest.raises(SignInFailed, match="authorization server of 'x' .* cannot be asked .* Try again later"):
            await sign_in(gateway)


async def test_a_token_that_lasts_forever_can_be_kept(open_gateway: OpenGateway) -> None:
    async with LastsForever() as remote:
        for _ in range(2):
            async with open_gateway({"x": {"url": remote.url}}) as gateway:
                if not remote.tokens:
                    await sign_in(gateway)
                assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_provider_that_is_down_loses_nobody_their_sign_in(open_gateway: OpenGateway) -> None:
    async with ProviderDown(lifetime=0) as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        remote.down = True
        with pytest.raises(SignInFailed, match="without a token"):
            await gateway.pool.start("x")
        remote.down, remote.lifetime = False, 3600
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_sign_in_that_cannot_be_kept_is_not_lost_while_we_run(
    open_gateway: OpenGateway, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        await gateway.call("x.whoami")
        [database] = state.glob("*.db")
        with closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON vault_secret BEGIN SELECT RAISE(ABORT, 'full'); END")
            other.commit()
            for _ in range(2):  # each refresh token works once, so what replaced the first must be known
                remote.tokens.clear()
                assert text_of(await gateway.call("x.whoami")) == "ann"
            assert "kept in memory" in caplog.text
            assert "canary" not in caplog.text
            other.execute("DROP TRIGGER full")
            other.commit()
        await gateway.call("x.whoami")
        kept = await gateway.accounts.sign_ins.keep.grant("shared", "x", remote.url)
        assert kept is not None
        assert kept.refresh_token in remote.refresh_tokens


async def test_a_full_disk_says_so_and_the_earlier_sign_in_stays(open_gateway: OpenGateway, state: Path) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        await sign_in(gateway)
        [database] = state.glob("*.db")
        with closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON vault_secret BEGIN SELECT RAISE(ABORT, 'full'); END")
            other.commit()
        remote.account = "bob"
        with pytest.raises(WicketError, match="could not be used") as problem:
            await sign_in(gateway)
        assert "canary" not in str(problem.value)
        assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_a_redirect_works_once(open_gateway: OpenGateway) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
        state = pending.begun.authorization.state
        query = {"state": state, "code": "stolen", "iss": "https://evil.example"}
        assert "did not come from" in await gateway.accounts.sign_ins.finish(query)
        assert "used already" in await gateway.accounts.sign_ins.finish({**query, "iss": remote.origin})
        assert not remote.seen("/token")


async def test_a_call_waits_for_no_other_servers_sign_in(open_gateway: OpenGateway) -> None:
    async with SlowToken() as slow, Protected() as quick:
        servers = {"slow": {"url": slow.url}, "quick": {"url": quick.url}}
        async with open_gateway(servers) as gateway:
            tasks = Tasks()
            waiting = tasks.start(sign_in(gateway, "slow"), "sign in")
            await slow.asked.wait()
            await sign_in(gateway, "quick")
            assert text_of(await gateway.call("quick.whoami")) == "ann"
            slow.released.set()
            await waiting
            assert text_of(await gateway.call("slow.whoami")) == "ann"


@asynccontextmanager
async def two_processes(open_gateway: OpenGateway, remote: Protected) -> AsyncGenerator[tuple[Gateway, Gateway]]:
    """Two gateways over one state, as workers are; browsers that one of them sends away come back to the other."""
    ring = Ring([b"k" * 32])
    async with (
        open_gateway({"x": {"url": remote.url}}) as here,
        open_gateway({"x": {"url": remote.url}}) as there,
        serve_http(there) as address,
    ):
        for gateway in (here, there):
            gateway.accounts.waiting.share(ring)
        here.accounts.serve_at(address.removesuffix("/mcp"))
        yield here, there


async def test_a_browser_may_come_back_to_another_process(open_gateway: OpenGateway) -> None:
    """Who waits at one process goes on when the browser comes to the other."""
    async with Protected() as remote, two_processes(open_gateway, remote) as (here, there):
        with pytest.raises(NeedsSignIn):
            await here.call("x.whoami")
        assert await here.accounts.missing(here.config.servers, LOCAL) == {"x"}
        pending = await here.accounts.sign_ins.begin(here.catalogue.server("x"), LOCAL)
        status, text = await browse(pending.link)
        assert (status, "You are signed in to" in text) == (200, True)
        await pending.wait()
        for gateway in (here, there):
            assert text_of(await gateway.call("x.whoami")) == "ann"
            assert not await gateway.accounts.missing(gateway.config.servers, LOCAL)
        assert "used already" in (await browse(pending.link))[1]


async def test_who_waits_hears_that_a_sign_in_failed_in_another_process(open_gateway: OpenGateway) -> None:
    async with Refuses() as remote, two_processes(open_gateway, remote) as (here, _):
        pending = await here.accounts.sign_ins.begin(here.config.servers[0], LOCAL)
        await browse(pending.link)
        with pytest.raises(SignInFailed, match="access_denied"):
            await pending.wait()


async def test_a_sign_in_at_one_process_is_known_to_the_search_of_another(open_gateway: OpenGateway) -> None:
    async with (
        Protected() as remote,
        open_gateway({"x": {"url": remote.url}}) as here,
        open_gateway({"x": {"url": remote.url}}) as there,
    ):
        for gateway in (here, there):
            with pytest.raises(NeedsSignIn):
                await gateway.call("x.whoami")
        pending = await there.accounts.sign_ins.begin(there.catalogue.server("x"), LOCAL)
        await browse(pending.link)
        await pending.wait()
        assert not await here.accounts.missing(here.config.servers, LOCAL)


async def test_what_waits_is_not_readable_in_the_state(open_gateway: OpenGateway, state: Path) -> None:
    async with Protected() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        pending = await gateway.accounts.sign_ins.begin(gateway.config.servers[0], LOCAL)
        begun = pending.begun
        kept = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
        assert b"sign-in link" in kept
        for secret in (begun.ticket, begun.browser, begun.authorization.state, begun.authorization.verifier):
            assert secret.encode() not in kept
