"""Every option, one after the other: a gateway that reloads it holds what a gateway that starts with it holds.

Each option of the model gets another valid value. What can be reached from the reloaded gateway is compared, path by
path, with a gateway that was opened with the new value: a value that differs there must not be the old one here.
"""

import functools
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, cast

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from tests.conftest import peer
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import RATES, Config
from wicket_mcp.config.model.options import options_of
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.reload import needing_restart

RESTART = {"http.host", "http.port", "state_dir", "store", "shared_limits"}
"""Read when Wicket starts; so is everything in `trace`."""
CHOSEN: Mapping[str, Any] = {
    "http.public_url": "https://wicket.example",
    "http.issuers": (IssuerConfig(issuer="https://login.example", audience=("wicket",)),),
    "registry.rates": {**RATES, "invocation": 7},
    "registry.resolvers": ("127.0.0.1",),
    "servers.transport": "http",
    "policy.rules.arguments": {"to": {"type": "string"}},
}
"""Values for options whose values are checked further than their types say."""
SKIPPED: Mapping[str, str] = {"search.model": "needs a model on the disk"}


def options(config: Config) -> Iterator[tuple[str, Config]]:
    """Every option by its path, and the configuration with another value for it."""
    yield from ((path, cast("Config", other)) for path, other in changes(config, ""))
    for name in ("servers", "profiles"):
        for path, other in changes(getattr(config, name)[0], f"{name}."):
            yield path, replace(config, **{name: (other,)})
    for path, rule in changes(config.policy.rules[0], "policy.rules."):
        yield path, replace(config, policy=replace(config.policy, rules=(rule,)))


def changes(section: msgspec.Struct, at: str) -> Iterator[tuple[str, Any]]:
    for name, option in options_of(type(section)).items():
        path, value = f"{at}{name}", getattr(section, name)
        if option.section is not None:
            for inner, other in changes(value, f"{path}."):
                yield inner, replace(section, **{name: other})
        elif path not in SKIPPED:
            yield path, replace(section, **{name: CHOSEN[path] if path in CHOSEN else other_value(option.kind, value)})


def other_value(kind: inspect.Type, value: Any) -> Any:
    match kind:
        case inspect.Metadata():
            return other_value(kind.type, value)
        case inspect.BoolType():
            return not value
        case inspect.IntType() | inspect.FloatType():
            return (value or 0) + 1
        case inspect.StrType():
            return f"{value or ''}other"
        case inspect.LiteralType():
            return next(choice for choice in kind.values if choice != value)
        case inspect.VarTupleType():
            return (other_value(kind.item_type, None),) if not value else ()
        case inspect.DictType():
            return {
                **cast("dict[Any, Any]", value or {}),
                other_value(kind.key_type, None): other_value(kind.value_type, None),
            }
        case inspect.UnionType():
            return other_value(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), value)
        case inspect.StructType():
            return kind.cls()
        case _:
            return "other"


CONTAINERS = (tuple, list, set, frozenset, dict)
SCALARS = (str, int, float, bytes, type(None), Path, Enum)


def facts(root: Gateway) -> dict[str, Any]:
    """Every plain value that can be reached from a gateway, by its path."""
    _ = root.registry  # made when it is first used
    found: dict[str, Any] = {}
    seen: set[int] = set()
    pending: list[tuple[str, Any]] = [("gateway", root)]
    kept: list[Any] = []
    for path, value in pending:
        if isinstance(value, SCALARS):
            found[path] = value
            continue
        if type(value) in CONTAINERS:
            found[f"{path} (size)"] = len(value)
        if id(value) not in seen:
            seen.add(id(value))
            kept.append(value)
            pending += [(f"{path}.{name}", inner) for name, inner in inside(value)]
    return found


def inside(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of ours refers to, by name; closures of our functions included, other libraries' objects not."""
    kind = cast("Any", type(value))
    if isinstance(value, dict):
        yield from ((repr(key), item) for key, item in cast("dict[Any, Any]", value).items() if isinstance(key, str))
    elif isinstance(value, tuple | list):
        yield from ((str(number), item) for number, item in enumerate(cast("list[Any]", value)))
    elif isinstance(value, set | frozenset):
        yield "members", tuple(sorted(map(str, cast("set[Any]", value))))
    elif isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        yield from (("func", partial.func), ("args", partial.args), ("keywords", partial.keywords))
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("func", value.__func__))
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:
                continue  # not filled yet
    elif getattr(kind, "__module__", "").startswith("wicket_mcp") and not isinstance(value, type):
        slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ()) if name != "__weakref__"]
        for name in dict.fromkeys((*getattr(value, "__dict__", {}), *slots, *getattr(kind, "__struct_fields__", ()))):
            if hasattr(value, name):
                yield name, getattr(value, name)


def start(folder: Path) -> Config:
    config = Config.from_dict(
        {
            "servers": {"echo": peer("Echo")},
            "profiles": {"work": {"servers": ["echo"]}},
            "policy": {"rules": [{"action": "ask", "tool": "never"}]},
            "state_dir": str(folder),
            "http": {"port": 0},
        }
    )
    return replace(config, path=folder.parent / "wicket.toml")


async def test_a_reloaded_gateway_holds_what_a_new_one_holds(tmp_path: Path) -> None:
    base, beside = start(tmp_path / "a"), str(tmp_path / "b")
    async with Gateway.open(base) as one, Gateway.open(replace(base, state_dir=beside)) as another:
        here, there = facts(one), facts(another)
    random = {at for at in here if here[at] != there.get(at)}
    stale: list[str] = []
    walked: list[str] = []
    for option, config in options(base):
        walked.append(option)
        if option in RESTART or option.startswith("trace."):
            assert needing_restart(base, config), option
            continue
        async with Gateway.open(base) as reloaded, Gateway.open(replace(config, state_dir=beside)) as new:
            old = facts(reloaded)
            reloaded.apply(config)
            now, expected = facts(reloaded), facts(new)
        changed = [at for at in old if at in expected and old[at] != expected[at] and at not in random]
        assert changed, f"nothing holds {option}, or the walk does not see it"
        stale += [f"{option}: {at} is still {old[at]!r}" for at in changed if now.get(at, ...) == old[at]]
    assert stale == []
    assert len(walked) > 100
