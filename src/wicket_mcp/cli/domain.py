"""`wicket add DOMAIN`: the servers that a domain publishes, each shown and asked about before it is added."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.cli.trust import keep_trust
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.registry.domain_catalogue import Offer


def add_from_domain(domain: str, path: Path, *, yes: bool, json: bool) -> None:
    """Add what a domain offers and the person wants. Raises WicketError where it offers nothing."""
    offers, problems = _read(domain, path)
    for problem in problems:
        note(f"wicket: a card was left out. {problem}")
    if not offers:
        raise ConfigError(
            f"{domain} publishes no server that Wicket can use.",
            hint="Give the address instead: wicket add NAME --url https://…",
        )
    names = _free_names([offer.name for offer in offers], path)
    added: list[str] = []
    for name, offer in zip(names, offers, strict=True):
        if yes or (not json and _wants(domain, name, offer)):
            _add(name, offer, path)
            added.append(name)
    if json:
        rows = [
            {"name": name, "title": offer.title, "description": offer.description, "url": offer.url}
            for name, offer in zip(names, offers, strict=True)
        ]
        say_json({"config": str(path), "offered": rows, "added": added})
    elif added:
        note(f"See what {'it offers' if len(added) == 1 else 'they offer'}: wicket tools {added[0]}")


def _read(domain: str, path: Path) -> "tuple[list[Offer], list[str]]":
    from wicket_mcp.config.model.config import RegistryConfig
    from wicket_mcp.config.read.formats import load
    from wicket_mcp.registry import settings
    from wicket_mcp.registry.dns import lookup
    from wicket_mcp.registry.domain_catalogue import read_offers
    from wicket_mcp.registry.domains import normalise
    from wicket_mcp.upstream.egress_rules import EgressRules

    terms = settings.read(load(path).registry if path.exists() else RegistryConfig())
    rules = EgressRules(terms.allowed, lookup(terms.resolvers) if terms.resolvers else None)
    return asyncio.run(read_offers(normalise(domain), rules))


def _wants(domain: str, name: str, offer: "Offer") -> bool:
    about = f": {offer.description}" if offer.description else ""
    say(f"{offer.title}{about}")
    say(f"  at {offer.url}, as {domain} says")
    if offer.headers:
        say(f"  needs the headers {', '.join(offer.headers)}: add them to wicket.toml, or try wicket login {name}")
    return typer.confirm(f"Add it as {name}?", default=False)


def _add(name: str, offer: "Offer", path: Path) -> None:
    from wicket_mcp.config.edit import wicket_toml
    from wicket_mcp.config.model.config import Config

    values = {"url": offer.url, "transport": offer.transport, "description": offer.description}
    server = Config.from_dict({"servers": {name: {key: value for key, value in values.items() if value}}}).servers[0]
    with keep_trust(path):
        wicket_toml.save(path, wicket_toml.add_server(wicket_toml.read_or_start(path), server, path))
    note(f"Added {name} to {path}")


def _free_names(preferred: list[str], path: Path) -> list[str]:
    """Names of which none is taken, in the configuration or by another offer."""
    from wicket_mcp.config.read.formats import load

    used = {server.name for server in load(path).servers} if path.exists() else set[str]()
    names: list[str] = []
    for name in preferred:
        free = next(n for n in (name, *(f"{name}-{number}" for number in range(2, 1000))) if n not in used)
        used.add(free)
        names.append(free)
    return names
