"""JSON in pieces: the same values and bytes as in one piece, while the event loop goes on."""

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.values import VALUES
from wicket_mcp.codec import MAX_DEPTH, decode, encode
from wicket_mcp.large_json import MAX_CONTAINERS, decode_in_pieces, decode_off_loop, encode_in_pieces, encode_off_loop

WINDOWS = st.sampled_from([64, 65, 71, 300])  # no number is longer


@given(VALUES, WINDOWS, st.sampled_from([None, 1]), st.booleans())
def test_what_is_read_in_pieces_is_what_was_written(value: Any, window: int, indent: int | None, plain: bool) -> None:
    text = json.dumps([value, value, {"more": value}], indent=indent, ensure_ascii=plain)
    assert decode_in_pieces(text, window=window) == json.loads(text)


@given(VALUES, WINDOWS, st.integers(0, 200), st.sampled_from('[]{},:"\\u1 x'))
def test_what_cannot_be_read_whole_cannot_be_read_in_pieces(value: Any, window: int, at: int, mark: str) -> None:
    text = encode([value] * 3).decode()
    text = text[:at] + mark + text[at:]
    try:
        expected = decode(text)
    except ValueError:
        with pytest.raises(ValueError, match="JSON"):
            decode_in_pieces(text, window=window)
    else:
        assert decode_in_pieces(text, window=window) == expected


@given(VALUES, WINDOWS)
def test_what_is_written_in_pieces_is_what_would_be_written(value: Any, window: int) -> None:
    assert decode(encode_in_pieces([value] * 5, window)) == decode(encode([value] * 5))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"[" + b"1," * 1_000_000 + b"1]", "too many values"),
        (b'{"x":[' + b'{"a":1},' * (MAX_CONTAINERS + 10) + b"1]}", "too many lists and objects"),
        (b"[" * (MAX_DEPTH + 1) + b"1," * 100_000 + b"1" + b"]" * (MAX_DEPTH + 1), "too deeply"),
        (b'{"x": "' + b"a" * 1_000_000, "malformed"),
        (b"[" + b"1," * 100_000 + b"NaN]", "JSON"),
    ],
)
def test_what_is_too_much_is_refused(document: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decode_in_pieces(document)


def test_commas_within_texts_are_no_values() -> None:
    rows = [{"csv": "1,2,3,4,5,6,7,8,[,{," * 100} for _ in range(1000)]
    assert decode_in_pieces(encode(rows)) == rows


async def _turns_during(work: Any) -> int:
    """How many turns of the loop there are until `work` is done."""
    running = asyncio.ensure_future(work)
    turns = 0
    while not running.done():
        await asyncio.sleep(0)
        turns += 1
    await running
    return turns


@pytest.mark.promise("F27", "Messages of megabytes are decoded and written outside the event loop, in small steps.")
@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": number, "name": f"row {number}"} for number in range(60_000)]},
        {"text": "a line\n" * 500_000},
        {"lists": [[["x"]]] * 60_000},
    ],
    ids=["rows", "text", "lists"],
)
async def test_f27_megabytes_do_not_hold_the_loop(value: Any) -> None:
    data = encode(value)
    assert await _turns_during(decode_off_loop(data)) >= 5
    assert await _turns_during(encode_off_loop(value)) >= 3


@pytest.mark.parametrize("document", ['{"a":[1e400,-2.5e510,1]}', '{"a":[1e400,-2.5e510,1],"b":"\\udde0"}'])
def test_a_number_beyond_the_largest_is_passed_on_as_the_largest(document: str) -> None:
    for value in (decode(document), decode_in_pieces(document, window=64)):
        assert value["a"] == [sys.float_info.max, -sys.float_info.max, 1]
        assert decode(encode(value)) == value
        assert decode(encode_in_pieces(value, 64)) == value
