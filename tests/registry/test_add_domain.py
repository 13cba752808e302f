"""`wicket add DOMAIN`: what a domain publishes is shown, asked about and added; real names, addresses and TLS."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.extensions_document import shows
from tests.peers.dns_server import Names
from tests.peers.tls import Authority
from tests.peers.website import Website
from tests.registry.command import wicket
from wicket_mcp.config.read.formats import load

CATALOGUE = "/.well-known/ai-catalog.json"
CARD = "application/mcp-server-card+json"


@dataclass(frozen=True)
class Place:
    """A folder whose wicket.toml asks the tests' DNS server and may reach this machine."""

    folder: Path
    names: Names
    authority: Authority

    def site(self, domain: str) -> Website:
        site = Website(self.authority.context(domain))
        self.names.zone.addresses[domain] = site.address
        return site

    async def run(self, *arguments: str, **options: Any) -> str:
        options["SSL_CERT_FILE"] = str(self.authority.file)
        return await asyncio.to_thread(wicket, self.folder, *arguments, **options)

    def urls(self) -> dict[str, str | None]:
        return {server.name: server.url for server in load(self.folder / "wicket.toml").servers}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Names() as names:
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "wicket.toml").write_text(
            f'[registry]\nresolvers = ["{names.address}"]\nallowed_addresses = ["127.0.0.0/8"]\n'
        )
        authority = tmp_path / "authority"
        authority.mkdir()
        yield Place(folder, names, Authority(authority))


def card(name: str, url: str, kind: str = "streamable-http") -> str:
    remote = {"type": kind, "url": url}
    return json.dumps({"name": name, "title": f"Title of {name}", "description": "For tests.", "remotes": [remote]})


def catalogue(*cards: str) -> str:
    entries = [{"identifier": f"urn:air:shop.example:{n}", "type": CARD, "url": url} for n, url in enumerate(cards)]
    other = {"identifier": "urn:air:shop.example:x", "type": "application/other", "url": "/other"}
    return json.dumps({"specVersion": "1.0", "entries": [other, *entries]})


@shows("server cards", "cards of other servers, by `wicket add DOMAIN`", clients="Wicket", servers="any")
async def test_each_server_is_asked_about_and_added_by_a_yes(place: Place) -> None:
    async with place.site("shop.example") as site:
        site.pages |= {
            CATALOGUE: catalogue("https://shop.example/orders/card", "/stock/card"),
            "/orders/card": card("example.shop/orders", "https://shop.example/orders/mcp"),
            "/stock/card": card("example.shop/stock", "https://shop.example/stock/sse", "sse"),
        }
        shown = await place.run("add", "shop.example", stdin="n\ny\n")
        assert "Title of example.shop/orders: For tests." in shown
        assert "at https://shop.example/orders/mcp, as shop.example says" in shown
        assert place.urls() == {"stock": "https://shop.example/stock/sse"}
        (stock,) = load(place.folder / "wicket.toml").servers
        assert (stock.transport, stock.description) == ("sse", "For tests.")
        await place.run("add", "shop.example", "--yes")
        assert set(place.urls()) == {"stock", "orders", "stock-2"}, "a name that is taken is not taken over"
        assert {request.path for request in site.received} == {CATALOGUE, "/orders/card", "/stock/card"}, "no server"


async def test_without_an_answer_nothing_is_added(place: Place) -> None:
    async with place.site("shop.example") as site:
        site.pages |= {CATALOGUE: catalogue("/card"), "/card": card("shop", "https://shop.example/mcp")}
        await place.run("add", "shop.example", code=1)
        assert place.urls() == {}
        offered = json.loads(await place.run("add", "shop.example", "--json"))
        assert [(each["name"], each["url"]) for each in offered["offered"]] == [("shop", "https://shop.example/mcp")]
        assert (offered["added"], place.urls()) == ([], {})


async def test_what_cannot_be_used_is_left_out_and_named(place: Place) -> None:
    async with place.site("shop.example") as site:
        site.pages |= {
            CATALOGUE: catalogue("http://shop.example/plain", "/missing", "/local", "/broken"),
            "/local": card("local", "http://127.0.0.1/mcp"),
            "/broken": "not JSON",
        }
        said = await place.run("add", "shop.example", "--yes", code=2)
        assert "shop.example publishes no server that Wicket can use" in said
        assert said.count("a card was left out") == 4
        assert place.urls() == {}
        del site.pages[CATALOGUE]
        assert "answered HTTP 404" in await place.run("add", "shop.example", "--yes", code=1)


async def test_a_domain_within_the_own_network_is_not_read(place: Place) -> None:
    async with place.site("inside.example") as site:
        file = place.folder / "wicket.toml"
        file.write_text(file.read_text().replace('allowed_addresses = ["127.0.0.0/8"]', ""))
        site.pages[CATALOGUE] = catalogue("/card")
        await place.run("add", "inside.example", "--yes", code=1)
        assert site.received == []
