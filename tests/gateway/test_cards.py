"""The cards of our addresses: public, cacheable, and silent about what is behind them."""

import aiohttp

from tests.conftest import OpenGateway, peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import serve_http


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
        urls = [entry["url"] for entry in catalogue["entries"]]
        assert f"{address}/server-card" in urls
        assert all(entry["identifier"].startswith("urn:air:") for entry in catalogue["entries"])
        for url in urls:
            async with client.get(url) as answer:
                assert answer.headers["Content-Type"] == "application/mcp-server-card+json"
                card = await answer.json(content_type=None)
                assert card["remotes"][0]["url"] == url.removesuffix("/server-card")
                assert "secret-server" not in str(card)
        async with client.post(f"{address}/server-card") as answer:
            assert answer.status == 405
