"""Reads and checks the `[registry]` options in one place.

Needs no registry and imports little, because every start and reload calls it, even for a gateway that never opens its
registry. Its result needs no further checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wicket_mcp.config.model.config import RegistryConfig
from wicket_mcp.errors import ConfigError
from wicket_mcp.identity.keys import KINDS
from wicket_mcp.registry.dns import Resolver, require_client
from wicket_mcp.upstream.egress_rules import Allowed


@dataclass(frozen=True, slots=True)
class Terms:
    """The options of `[registry]` that can be wrong, in parsed form."""

    rates: Mapping[str, int]
    resolvers: tuple[Resolver, ...]
    allowed: Allowed


def read(settings: RegistryConfig) -> Terms:
    """Raises ConfigError, naming the option."""
    _check_rates(settings.rates)
    resolvers = tuple(map(Resolver.parse, settings.resolvers))
    if resolvers:
        require_client()
    return Terms(settings.rates, resolvers, Allowed.parse(settings.allowed_addresses))


def check(settings: RegistryConfig) -> None:
    """Raises ConfigError if the options cannot be used."""
    read(settings)


def _check_rates(rates: Mapping[str, int]) -> None:
    for kind, per_hour in rates.items():
        if kind not in KINDS:
            hint = f"Kinds are {', '.join(KINDS)}."
            raise ConfigError(f"'{kind}' is not a kind of request", key="registry.rates", hint=hint)
        if per_hour < 0:
            raise ConfigError(f"'{kind}' is negative", key="registry.rates", hint="Use 0 for no limit.")
