"""The cards of our addresses: public, cacheable, and silent about what is behind them."""

import aiohttp

from tests.conftest import OpenGateway, peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import serve_http
from wicket_mcp.dialects.factory import NAMES


@shows("server cards", "cards, catalogue", clients="any", servers="Wicket")
async def test_every_address_has_a_card_and_the_catalogue_leads_to_them(open_gateway: OpenGateway) -> None:
    async with (
        open_gateway({"secret-server": peer("Echo")}) as gateway,
        serve_http(gateway) as address,
        aiohttp.ClientSession() as client,
    ):
        origin = address.removesuffix("/mcp")
        async with client.get(f"{origin}/.well-known/ai-catalog.json") as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")
            catalogue = await answer.json()
            tag = answer.headers["ETag"]
        async with client.get(f"{origin}/.well-known/ai-catalog.json", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        assert catalogue["specVersion"]
        urls = [entry["url"] for entry in catalogue["entries"]]
        assert urls == [f"{path}/server-card" for path in (address, *(f"{address}/{name}" for name in NAMES))]
        assert {entry["type"] for entry in catalogue["entries"]} == {"application/mcp-server-card+json"}
        assert all(entry["identifier"].startswith("urn:air:") for entry in catalogue["entries"])
        for url in urls:
            async with client.get(url) as answer:
                assert answer.headers["Content-Type"] == "application/mcp-server-card+json"
                card = await answer.json(content_type=None)
                assert card["remotes"][0]["url"] == url.removesuffix("/server-card")
                assert "secret-server" not in str(card)
                assert answer.headers["Access-Control-Allow-Origin"] == "*"
                tag = answer.headers["ETag"]
            async with client.get(url, headers={"If-None-Match": tag}) as answer:
                assert (answer.status, await answer.read()) == (304, b"")
        async with client.post(f"{address}/server-card") as answer:
            assert answer.status == 405


async def test_cards_have_the_public_address_and_do_not_tell_of_profiles(open_gateway: OpenGateway) -> None:
    public = "https://tools.example.com/gateway"
    async with (
        open_gateway(
            {"x": peer("Echo")}, http={"public_url": f"{public}/"}, profiles={"takeover": {"servers": ["x"]}}
        ) as gateway,
        serve_http(gateway) as address,
        aiohttp.ClientSession() as client,
    ):
        async with client.get(f"{address.removesuffix('/mcp')}/.well-known/ai-catalog.json") as answer:
            catalogue = await answer.json()
        assert catalogue["entries"][0]["url"] == f"{public}/mcp/server-card"
        assert catalogue["entries"][0]["identifier"] == "urn:air:tools.example.com:wicket"
        assert "takeover" not in str(catalogue)
        async with client.get(f"{address}/server-card") as answer:
            card = await answer.json(content_type=None)
        assert card["remotes"][0]["url"] == f"{public}/mcp"
        async with client.get(f"{address}/p/takeover/server-card") as answer:
            assert answer.status == 401
