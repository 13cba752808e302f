"""Bytes, schemas, references, paths and configuration files of any kind: no exception that is not ours."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.values import OBJECTS, PATHS, SCHEMAS, VALUES, WITH_REFERENCES
from wicket_mcp.codec import decode, encode
from wicket_mcp.config.read.formats import parse
from wicket_mcp.errors import BadArguments, ConfigError
from wicket_mcp.framing import LineFramer, LineTooLong
from wicket_mcp.model import Tool
from wicket_mcp.results.paths import select
from wicket_mcp.results.references import find_references, refers, replace_references
from wicket_mcp.schema.arguments import fit_arguments, parse_arguments
from wicket_mcp.schema.headers import parameter_headers
from wicket_mcp.schema.signature import describe, signature
from wicket_mcp.upstream.event_stream import EventParser, OversizedEventError

CHUNKS = st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x\n\n", b":", b"id: 1\n"]))


@given(CHUNKS)
def test_lines_are_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    framer = LineFramer(64)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines += framer.feed(chunk)
    except LineTooLong:
        return
    assert lines == b"".join(chunks).split(b"\n")[:-1]


@given(CHUNKS)
def test_events_are_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    whole, cut = EventParser(64), EventParser(64)
    try:
        together = [event for chunk in chunks for event in cut.feed(chunk)]
        assert together + cut.end() == whole.feed(b"".join(chunks)) + whole.end()
    except OversizedEventError:
        return


@given(st.binary(max_size=200) | st.text(max_size=100), st.booleans())
@example(b"[" * 5000, True)
@example("1" * 5000, False)
def test_decoding_gives_a_value_or_a_value_error(data: bytes | str, strict: bool) -> None:
    try:
        value = decode(data, strict=strict)
    except ValueError:
        return
    assert decode(encode(value)) == value


@given(SCHEMAS, OBJECTS, OBJECTS | VALUES)
@settings(max_examples=300)
def test_any_schema_is_described_and_checked_against(schema: Any, output: Any, arguments: Any) -> None:
    tool = Tool("x", "t", {"name": "t", "inputSchema": schema, "outputSchema": output, "description": "d"})
    for detail in ("signature", "brief", "full"):
        describe(tool, detail)
    assert len(signature(tool)) < 2000
    try:
        fitting = fit_arguments(tool, parse_arguments(arguments))
    except BadArguments:
        return
    parameter_headers(tool, fitting)


@given(WITH_REFERENCES, OBJECTS, st.booleans())
@settings(max_examples=300)
def test_references_are_replaced_or_refused(arguments: Any, body: Any, as_text: bool) -> None:
    try:
        references = find_references(arguments)
        bodies = {reference.handle: body for reference in references}
        replaced = replace_references(arguments, references, bodies, lambda place: as_text)
    except BadArguments:
        return
    if isinstance(arguments, (dict, list)) and not refers(arguments):
        assert replaced == arguments


@given(VALUES, PATHS)
@settings(max_examples=500)
def test_a_path_selects_or_is_refused(value: Any, path: str) -> None:
    with suppress(BadArguments):
        select(value, path)


CONFIGS = (
    '[servers.x]\ncommand = "x"\nargs = ["a"]\nenv = { A = "${B}" }\n[http]\nport = 1\n',
    '{"mcpServers": {"x": {"command": "x", "args": [1], "env": {"A": "${B}"}}, "y": {"url": "http://h/"}}}',
    "servers:\n  x:\n    command: x\n    args: [a]\n  y:\n    url: http://h/\n",
)


@given(
    st.sampled_from(CONFIGS),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 6), st.text(max_size=6)), max_size=4),
)
@settings(max_examples=400)
def test_a_damaged_configuration_is_read_or_a_config_error(text: str, damages: list[tuple[int, int, str]]) -> None:
    for at, length, instead in damages:
        text = text[:at] + instead + text[at + length :]
    with suppress(ConfigError):
        parse(text)


@given(st.text(max_size=80))
def test_any_text_as_configuration_is_read_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        parse(text)


def test_a_configuration_of_great_depth_is_a_config_error() -> None:
    for text in ("[" * 3000, '{"a":' * 3000, "a = " + "[" * 3000, "- " * 3000, "a: {" * 3000):
        with pytest.raises(ConfigError):
            parse(text)
