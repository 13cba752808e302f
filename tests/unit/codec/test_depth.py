"""JSON that is nested so deeply that a walk over it would end in a RecursionError is not JSON to us (V21)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.codec import MAX_DEPTH, cut_depths, decode, encode, pretty

BESIDE: list[list[Any]] = [[], ["x" * 300], [[1, {"a": [2]}]] * 500, ["]}[{" * 300]]


def nested(depth: int, kinds: str = "[", leaf: Any = 1) -> Any:
    value = leaf
    for at in range(depth):
        value = [value] if kinds[at % len(kinds)] == "[" else {"k": value}
    return value


@pytest.mark.parametrize("kinds", ["[", "{", "[{", "[[{"])
@pytest.mark.parametrize("beside", BESIDE, ids=["nothing", "text", "much", "brackets"])
def test_v21_the_limit_is_exact_whatever_stands_beside(kinds: str, beside: list[Any]) -> None:
    fits = [nested(MAX_DEPTH - 1, kinds), *beside]
    assert decode(encode(fits)) == fits
    assert decode(encode(fits).decode()) == fits
    with pytest.raises(ValueError, match="too deeply"):
        decode(encode([nested(MAX_DEPTH, kinds), *beside]))


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_v21_any_depth_is_a_value_error(depth: int) -> None:
    for text in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth):
        with pytest.raises(ValueError, match=r"too deeply|Expecting"):
            decode(text)


def test_v21_many_deep_branches_are_found_as_one_is() -> None:
    with pytest.raises(ValueError, match="too deeply"):
        decode(encode([nested(400)] * 300))


@given(st.integers(0, 3 * MAX_DEPTH), st.text(alphabet='[]{}"\\a'), st.sampled_from(["[", "{", "[{"]))
def test_what_is_too_deep_is_cut_and_nothing_else(depth: int, text: str, kinds: str) -> None:
    value = {"first": [text], text: nested(depth, kinds, text), "last": [[text], {text: 1}]}
    cut = decode(cut_depths(encode(value)))
    if depth < MAX_DEPTH:
        assert cut == value
    else:
        for _ in range(depth - MAX_DEPTH + 1):  # from inside
            kinds = kinds[1:] + kinds[0]
        assert cut == {**value, text: nested(MAX_DEPTH - 1, kinds, None)}


@given(st.text(alphabet='[]{}"\\a'))
def test_brackets_in_text_are_no_depth(text: str) -> None:
    value = [text * 200, {text: [text]}]
    assert decode(encode(value)) == value


def test_invalid_utf8_costs_a_character_or_where_it_matters_the_message() -> None:
    assert decode(b'{"a":"\xff"}') == {"a": "\ufffd"}
    with pytest.raises(ValueError, match="utf-8"):
        decode(b'{"a":"\xff"}', strict=True)
    assert decode(b'["\\ud83d"]', strict=True) == ["\ud83d"]


def test_half_a_character_is_written_for_people_too() -> None:
    assert decode(pretty({"query": "half \ud800"})) == {"query": "half ?"}
