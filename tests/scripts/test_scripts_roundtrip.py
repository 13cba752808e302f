"""JSON goes into a script and comes out again, through a tool's answer, a tool's arguments and the result."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts_world import structured

from wicket_mcp.model import Json, JsonObject, Tool
from wicket_mcp.scripts import Api, Outcome, Scripts
from wicket_mcp.scripts.calls import CallKind

API = Api.of([Tool("mirror", "give", {}), Tool("mirror", "take", {})])
SOURCES = {
    "lua": "local v = mirror.give():await() mirror.take({v = v.items}):await() return v.items",
    "javascript": "const v = await mirror.give(); await mirror.take({v: v.items}); return v.items",
    "python": "v = await mirror.give()\nawait mirror.take(v=v['items'])\nv['items']",
}
EXACT = {"lua": 2**63, "javascript": 2**53}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def as_seen_by(language: str, value: Json) -> Json:
    """The value with integers that the language cannot hold as the digits that a script sees."""
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            return {name: as_seen_by(language, item) for name, item in fields.items()}
        case list():
            return [as_seen_by(language, item) for item in cast("list[Any]", value)]
        case int() if not isinstance(value, bool) and language in EXACT:
            most = EXACT[language]
            exact = -most <= value < most if language == "lua" else -most < value < most
            return value if exact else str(value)
        case _:
            return value


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[asyncio.Runner, Scripts]]:
    """One engine for all examples, on a loop that outlives each of them."""
    with asyncio.Runner() as runner:
        scripts = Scripts()
        yield runner, scripts
        runner.run(scripts.close())


async def through(scripts: Scripts, language: str, items: list[Json]) -> tuple[Outcome, Json]:
    taken: list[Json] = []

    async def call(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        if name == "mirror.give":
            return structured({"items": items})
        taken.append(arguments["v"])
        return structured({})

    outcome = await scripts.run(SOURCES[language], language, API, call)
    return outcome, taken[0] if taken else None


@pytest.mark.parametrize("language", SOURCES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(items=st.lists(documents, min_size=1, max_size=40))
def test_json_survives_a_script(engine: tuple[asyncio.Runner, Scripts], language: str, items: list[Json]) -> None:
    runner, scripts = engine
    outcome, taken = runner.run(through(scripts, language, items))
    expected = as_seen_by(language, items)
    assert outcome.problem is None
    assert outcome.value == expected
    assert taken == expected
    assert repr(types_of(outcome.value)) == repr(types_of(expected))


def types_of(value: Json) -> Any:
    """The shape of a value, so that `1 == True` and `[] == {}` cannot hide a change."""
    match value:
        case dict():
            return {k: types_of(v) for k, v in sorted(cast("dict[str, Any]", value).items())}
        case list():
            return [types_of(item) for item in cast("list[Any]", value)]
        case bool() | str() | None:
            return type(value).__name__
        case _:
            return "number"
