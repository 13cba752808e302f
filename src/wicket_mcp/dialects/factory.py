"""Every vocabulary by name, and how it is made from a configuration.

A module is loaded when its vocabulary is first served: one client sees one of them, and should wait for no other.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wicket_mcp.config.model.config import Config
from wicket_mcp.dialects.base import Dialect, Menu
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.registry.facade import Desk

DeskOf = Callable[[], "Desk"]

_MAKERS: Mapping[str, Callable[[Config, DeskOf], Dialect]] = {
    "native": lambda config, desk: _module("native").NATIVE,
    "flat": lambda config, desk: _module("flat").Flat(unprefixed=config.unprefixed),
    "lua": lambda config, desk: _module("lua").LUA,
    "meta": lambda config, desk: _module("meta").Meta(upper=config.meta.upper),
    "chain": lambda config, desk: _module("chain").Chain(desk),
    "broker": lambda config, desk: _module("broker").Broker(config.favourites, dotted=config.dotted_names),
    "bridge": lambda config, desk: _module("bridge").Bridge(desk()),
}

NAMES = tuple(_MAKERS)


def menu(names: Sequence[str], config: Config, desk: DeskOf) -> Menu:
    """The vocabularies of these names as one list of tools. `desk` is asked only by those that need the registry.

    Raises ConfigError for a name that is none.
    """
    unknown = [name for name in names if name not in _MAKERS]
    if unknown:
        raise ConfigError(
            f"dialect '{unknown[0]}' is not built in", key="dialects", hint=f"Known are {', '.join(NAMES)}."
        )
    return Menu(tuple(_MAKERS[name](config, desk) for name in names))


def _module(name: str) -> Any:
    return import_module(f"wicket_mcp.dialects.{name}")
