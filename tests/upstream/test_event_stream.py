"""Server-sent events, however they are cut into chunks."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wicket_mcp.upstream.event_stream import Event, EventParser, OversizedEventError

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n"
    b"event: endpoint\r\ndata: /messages?id=1\r\n\r\n"
    b"id: 7\ndata: {\ndata:  1}\n\n"
    b"retry: 1500\rdata\rdata:x\r\r"
    b"unknown: field\n\n"
    b'data: caf\xc3\xa9 \xff "quoted: colon"\n\n'
)
EVENTS = [
    Event("endpoint", b"/messages?id=1"),
    Event("message", b"{\n 1}"),
    Event("message", b"\nx"),
    Event("message", b'caf\xc3\xa9 \xff "quoted: colon"'),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
@example(list(range(len(STREAM))))
def test_the_same_events_come_out_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    parser = EventParser(1000)
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [e for start, end in pairwise(edges) for e in parser.feed(STREAM[start:end])]
    assert events == EVENTS
    assert parser.end() == []
    assert (parser.last_id, parser.retry) == ("7", 1.5)


def test_an_event_without_its_blank_line_is_given_at_the_end() -> None:
    parser = EventParser(1000)
    assert parser.feed(b"data: {}") == []
    assert parser.end() == [Event("message", b"{}")]


def test_an_id_without_data_is_remembered_and_gives_no_event() -> None:
    parser = EventParser(1000)
    assert parser.feed(b"id: start\ndata:\n\n") == []
    assert parser.last_id == "start"


def test_an_id_that_could_not_stand_in_a_header_is_ignored() -> None:
    parser = EventParser(1000)
    parser.feed(b"id: good\n\nid: b\x00d\n\n")
    assert parser.last_id == "good"


@pytest.mark.parametrize(
    "stream",
    [b"x" * 2000, b"data: " + b"x" * 2000, b"data: 12345\n" * 200, b"data\n" * 2000, b": " + b"x" * 2000],
    ids=["line", "data", "lines", "empty lines", "comment"],
)
def test_an_event_or_line_beyond_the_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(OversizedEventError):
        _parse_in_pieces(stream)


def _parse_in_pieces(stream: bytes) -> None:
    parser = EventParser(1000)
    for position in range(0, len(stream), 100):
        parser.feed(stream[position : position + 100])


def test_small_events_may_add_up_to_any_size() -> None:
    parser = EventParser(1000)
    assert sum(len(parser.feed(b"data: " + b"x" * 500 + b"\n\n")) for _ in range(100)) == 100


@given(st.binary())
def test_no_bytes_break_it(noise: bytes) -> None:
    parser = EventParser(10_000)
    parser.feed(noise)
    parser.end()
    assert parser.feed(b"data: sane\n\n") == [Event("message", b"sane")]
