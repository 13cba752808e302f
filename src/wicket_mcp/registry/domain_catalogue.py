"""The servers that a domain publishes: its catalogue, and the card of each server that it names.

    GET https://<domain>/.well-known/ai-catalog.json    entries, of which those of server cards count
    GET the address of each card                        name, title, description, where the server is

Read over https under the egress rules, with size limits. Nothing in it is trusted: it is shown to a person, who
decides. Called by `wicket add DOMAIN`; knows no configuration file.
"""

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from wicket_mcp.codec import decode
from wicket_mcp.errors import Unavailable
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules

PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
MAX_SIZE = 256 * 1024
MAX_CARDS = 20
TIMEOUT = 10.0
_TRANSPORTS = {"streamable-http": "http", "sse": "sse"}


@dataclass(frozen=True, slots=True)
class Offer:
    """One server of a domain, from its card."""

    name: str
    """A suggested name for it here."""
    title: str
    description: str
    url: str
    transport: str
    headers: tuple[str, ...] = ()
    """Headers that it requires."""


async def read_offers(domain: str, rules: EgressRules) -> tuple[list[Offer], list[str]]:
    """The servers of a domain, and the cards that could not be used, with the reason.

    Raises Unavailable or another WicketError if there is no readable catalogue.
    """
    client = HttpClient(rules=rules)
    offers: list[Offer] = []
    problems: list[str] = []
    try:
        catalogue = await _fetch(client, domain, f"https://{domain}{PATH}")
        entries = [as_object(entry) for entry in as_list(catalogue.get("entries"))]
        cards = [as_text(entry.get("url")) for entry in entries if entry.get("type") == CARD_TYPE]
        for address in cards[:MAX_CARDS]:
            url = urljoin(f"https://{domain}{PATH}", address)
            try:
                if urlsplit(url).scheme != "https":
                    raise Unavailable(domain, "its address does not begin with https://.")
                offers.append(_read_card(domain, await _fetch(client, domain, url)))
            except Unavailable as problem:
                problems.append(f"{url}: {problem.message}")
    finally:
        await client.close()
    return offers, problems


async def _fetch(client: HttpClient, domain: str, url: str) -> JsonObject:
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await client.send(
                "GET", Endpoint.of(domain, url, {}), {"Accept": f"application/json, {CARD_TYPE}"}
            )
            try:
                body = await answer.body(MAX_SIZE)
            finally:
                answer.close()
    except TimeoutError:
        raise Unavailable(domain, f"{url} did not answer within {TIMEOUT:g} s.") from None
    if answer.status != 200:
        hint = "Give the address of its server instead: wicket add NAME --url https://…"
        raise Unavailable(domain, f"{url} answered HTTP {answer.status}.", hint=hint)
    try:
        return as_object(decode(body))
    except ValueError:
        raise Unavailable(domain, f"{url} is not JSON.") from None


def _read_card(domain: str, card: JsonObject) -> Offer:
    for remote in map(as_object, as_list(card.get("remotes"))):
        url, kind = as_text(remote.get("url")), _TRANSPORTS.get(as_text(remote.get("type")))
        if kind is None or urlsplit(url).scheme != "https" or "{" in url:
            continue
        headers = [as_object(header) for header in as_list(remote.get("headers"))]
        needed = tuple(as_text(header.get("name")) for header in headers if header.get("isRequired"))
        title = as_text(card.get("title")) or as_text(card.get("name"))
        return Offer(
            _short_name(as_text(card.get("name")), domain), title, as_text(card.get("description")), url, kind, needed
        )
    raise Unavailable(domain, "its card names no https address that Wicket can use.")


def _short_name(name: str, domain: str) -> str:
    """A name for the server here: the last part of its own name, or of the domain if it has none."""
    last = name.rpartition("/")[2] or domain.split(".")[-2]
    return re.sub(r"[^a-z0-9_-]+", "-", last.lower()).strip("-_")[:40] or "server"
