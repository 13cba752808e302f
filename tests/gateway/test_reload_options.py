"""Every option reloads by construction: nothing that a running gateway holds remembers the configuration before.

Walks all that can be reached from a gateway after a reload in which every section is another object. A room or live
part that kept a section of the old configuration is found, whichever option it is; so is a new option's.
"""

import gc
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import msgspec

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import serve_http
from wicket_mcp.config.model.config import Config
from wicket_mcp.reload import staying


def sections(config: Config) -> Iterator[tuple[str, Any]]:
    """Every part of a configuration that is an object of its own."""
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            yield name, value
        for item in items(value):
            if isinstance(item, msgspec.Struct):
                yield name, item


def items(value: Any) -> list[Any]:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else []


def copy(value: Any) -> Any:
    return type(value)(**{name: getattr(value, name) for name in value.__struct_fields__})


def renewed(config: Config) -> Config:
    """The same configuration, every section of which is another object."""
    fields: dict[str, Any] = {}
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            fields[name] = copy(value)
        elif isinstance(value, tuple):
            fields[name] = tuple(copy(item) if isinstance(item, msgspec.Struct) else item for item in items(value))
        else:
            fields[name] = value
    return type(config)(**fields)


def inside(value: Any) -> list[Any]:
    """What an object of ours refers to; closures of our functions included, other libraries' objects not."""
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if cell_filled(cell)]
    if isinstance(value, dict | list | tuple | set | frozenset):
        return gc.get_referents(value)
    kind = cast("Any", type(value))
    if getattr(kind, "__module__", "").startswith("wicket_mcp") or isinstance(value, MethodType):
        names = [*getattr(value, "__dict__", {}), *getattr(kind, "__slots__", ()), "__self__", "__func__"]
        struct = getattr(kind, "__struct_fields__", ())
        return [getattr(value, name) for name in (*names, *struct) if hasattr(value, name)]
    return []


def cell_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def reachable(root: Any) -> Iterator[tuple[Any, str]]:
    seen: set[int] = set()
    kept: list[Any] = []
    pending: list[tuple[Any, str]] = [(root, type(root).__name__)]
    while pending:
        value, path = pending.pop()
        if id(value) in seen or isinstance(value, ModuleType | type):
            continue
        seen.add(id(value))
        kept.append(value)
        yield value, path
        pending += [(item, f"{path} > {type(item).__name__}") for item in inside(value)]


async def test_nothing_remembers_a_section_of_the_configuration_before(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}, http={"port": 0}) as gateway:
        async with serve_http(gateway):
            await gateway.call("echo.echo", {"message": "x"})
            await gateway.registry.keys.list()
            old = gateway.config
            new = renewed(old)
            fixed = {id(value) for _, value in sections(staying(old, new))}  # what is read only when Wicket starts
            before = {id(value): f"{name}: {value!r:.60}" for name, value in sections(old) if id(value) not in fixed}
            assert len(before) > 10
            gateway.apply(new)
            await gateway.call("echo.echo", {"message": "y"})
            stale = [f"{before[id(value)]} in {path}" for value, path in reachable(gateway) if id(value) in before]
            assert stale == []
            assert any(value is gateway.config for value, _ in reachable(gateway)), "the walk sees the configuration"
