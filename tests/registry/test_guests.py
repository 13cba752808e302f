"""Calling servers that are not installed: hostile ones hurt nobody, and nobody speaks through another's connection."""

import pytest

from tests.conftest import OpenGateway
from tests.peers.http_faults import EchoesCredentials, EndlessBody, FiveGigabytes, GzipBomb, HttpPeer
from tests.registry.conftest import OpenFacade
from tests.registry.greets import Greets
from wicket_mcp.errors import Denied, UnknownName, UpstreamError, WicketError
from wicket_mcp.model import SCOPES, Principal, Silent
from wicket_mcp.registry.adhoc import MAX_GUESTS

ANN, BOB = Silent(Principal("ann", SCOPES)), Silent(Principal("bob", SCOPES))
LOOPBACK = {"allowed_addresses": ["127.0.0.1"]}


@pytest.mark.parametrize("fault", [GzipBomb, FiveGigabytes, EndlessBody])
async def test_a_server_that_sends_too_much_is_cut_off(open_facade: OpenFacade, fault: type[HttpPeer]) -> None:
    async with fault() as server:
        with pytest.raises(UpstreamError):
            await (await open_facade(registry=LOOPBACK)).invoke(server.url, "x", {}, {}, ANN)


async def test_credentials_are_in_no_error(open_facade: OpenFacade) -> None:
    secret = "Bearer abcdefgh-123456"
    async with EchoesCredentials() as server:
        with pytest.raises(WicketError) as caught:
            await (await open_facade(registry=LOOPBACK)).invoke(server.url, "x", {}, {"Authorization": secret}, ANN)
    assert "abcdefgh-123456" not in str(caught.value)


async def test_the_error_names_the_host_and_no_inner_name(open_facade: OpenFacade) -> None:
    with pytest.raises(WicketError) as caught:
        await (await open_facade(registry=LOOPBACK)).invoke("http://127.0.0.1:1/mcp", "x", {}, {}, ANN)
    assert "127.0.0.1:1" in str(caught.value)
    assert "#" not in str(caught.value)


async def test_two_principals_never_share_a_connection(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry=LOOPBACK)
    async with Greets() as server:
        for caller, key in ((ANN, "one"), (BOB, "one"), (ANN, "two"), (ANN, "one")):
            await facade.invoke(server.url, "x", {}, {"X-API-Key": key}, caller)
        opened = [request.headers["x-api-key"] for request in server.received if request.rpc_method == "initialize"]
        assert opened == ["one", "one", "two"]


async def test_no_more_than_so_many_connections_are_kept(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry=LOOPBACK)
    async with Greets() as server:
        for number in range(MAX_GUESTS + 3):
            await facade.invoke(server.url, "x", {}, {"X-API-Key": str(number)}, ANN)
        before = len(server.received)
        await facade.invoke(server.url, "x", {}, {"X-API-Key": "0"}, ANN)
        assert len(server.received) - before > 1, "the oldest was let go and is opened anew"


async def test_calls_are_counted_for_the_record_they_reach(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry=LOOPBACK)
    async with Greets() as server:
        remotes = [{"type": "streamable-http", "url": server.url}]
        body = {"name": "io.github.ann/far", "description": "Far away", "version": "1.0.0", "remotes": remotes}
        await facade.registry.publish(body, ANN.principal)
        await facade.invoke(server.url, "x", {}, {}, ANN)
    (known,), _ = await facade.discover("far away", ANN.principal, limit=1)
    assert known.id == "far"
    assert await facade.store.call_counts(0) == {"io.github.ann/far": 1}


async def test_the_scope_is_asked_before_anything_is_sent(open_facade: OpenFacade) -> None:
    reader = Silent(Principal("reader", frozenset({"discover"})))
    async with HttpPeer() as server:
        with pytest.raises(Denied):
            await (await open_facade(registry=LOOPBACK)).invoke(server.url, "x", {}, {}, reader)
        assert not server.received


async def test_which_address_inside_a_name_leads_to_is_told_to_administrators_alone(open_facade: OpenFacade) -> None:
    facade = await open_facade()
    for scopes, named in ((SCOPES, True), (SCOPES - {"admin"}, False)):
        caller = Silent(Principal("ann", scopes))
        with pytest.raises(Denied, match="not a public address") as caught:
            await facade.invoke("https://localhost:8443/mcp", "x", {}, {}, caller)
        assert ("leads to" in str(caught.value)) is named
    assert [one.outcome for one in await facade.store.recent_calls(ANN.principal, 5)] == ["denied", "denied"]


@pytest.mark.promise("V14", "An address that one principal gave is not shown to others.")
async def test_v14_an_address_is_shown_to_who_gave_it_alone(open_gateway: OpenGateway) -> None:
    async with Greets() as server, open_gateway({}, registry=LOOPBACK) as gateway:
        facade = gateway.registry
        await facade.invoke(server.url, "x", {}, {}, ANN)
        shown = {one.id for one in await facade.measure(None, 50, ANN.principal)}
        assert any("127.0.0.1" in name for name in shown)
        assert not any("127.0.0.1" in one.id for one in await facade.measure(None, 50, BOB.principal))
        [address] = [name for name in shown if "127.0.0.1" in name]
        assert await facade.measure(address, 1, ANN.principal)
        with pytest.raises(UnknownName):
            await facade.measure(address, 1, BOB.principal)
