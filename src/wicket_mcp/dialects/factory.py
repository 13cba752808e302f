"""One record per dialect: its name, a short guide, and how it is created from a configuration.

A module is loaded when its dialect is first served: a client uses one of them, and should not wait for the others. The
names are also the values of the option `dialects`, declared in `config/model`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from wicket_mcp.config.model.config import Config
from wicket_mcp.dialects.base import Dialect, Menu
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.registry.facade import RegistryFacade

FacadeOf = Callable[[], "RegistryFacade"]


class Entry(msgspec.Struct, frozen=True):
    """One dialect. `guide` is its part of the `instructions` that a client reads."""

    name: str
    make: Callable[[Config, FacadeOf], Dialect]
    guide: str


_ENTRIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "native",
            lambda config, facade: _module("native").NATIVE,
            "find_tools finds them for a task in plain words, call_tool calls one, run_script several in one step.",
        ),
        Entry(
            "flat",
            lambda config, facade: _module("flat").Flat(unprefixed=config.unprefixed),
            "Every tool is listed under its own name, server__tool.",
        ),
        Entry(
            "lua",
            lambda config, facade: _module("lua").LUA,
            "list-servers and list-server-tools show what there is, tool-details how a tool is called; execute runs a "
            "Lua script: server.tool({…}):await() calls, result(value) answers.",
        ),
        Entry(
            "meta",
            lambda config, facade: _module("meta").Meta(upper=config.meta.upper),
            "TOOL_LIST lists them, TOOL_GET gives schemas, TOOL_CALL calls.",
        ),
        Entry(
            "chain",
            lambda config, facade: _module("chain").Chain(facade),
            "search_tools takes a task in plain words, tool_info describes one tool, and call_tool_chain runs "
            "JavaScript: await backend.tool({…}) calls, return answers.",
        ),
        Entry(
            "broker",
            lambda config, facade: _module("broker").Broker(config.favourites, dotted=config.dotted_names),
            "broker_search finds them, broker_invoke calls one by server and name.",
        ),
        Entry(
            "bridge",
            lambda config, facade: _module("bridge").Bridge(facade()),
            "discover_mcp_servers finds servers in the registry, install_mcp_server adds one, invoke_tool calls.",
        ),
    )
}

NAMES = tuple(_ENTRIES)


def menu(names: Sequence[str], config: Config, facade: FacadeOf) -> Menu:
    """The dialects of these names as one list of tools. `facade` is called only by those that need the registry.

    Raises ConfigError for a name that no dialect has.
    """
    unknown = [name for name in names if name not in _ENTRIES]
    if unknown:
        raise ConfigError(
            f"dialect '{unknown[0]}' is not built in", key="dialects", hint=f"Known are {', '.join(NAMES)}."
        )
    return Menu(tuple(_ENTRIES[name].make(config, facade) for name in names), vendor_keys=config.vendor_keys)


def guide(names: Iterable[str]) -> str:
    """How these dialects are used."""
    return " ".join(_ENTRIES[name].guide for name in names)


def _module(name: str) -> Any:
    return import_module(f"wicket_mcp.dialects.{name}")
