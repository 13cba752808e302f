"""What the coverage-guided fuzzer feeds: one function for each parser, which takes bytes and lets only our errors pass.

Run by `test_coverage_guided.py` in a process of its own: `python -m tests.fuzz.targets NAME [libFuzzer's options]`.
By hand it may run for hours; what it finds is written to a file that the same command takes again.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

atheris: Any = import_module("atheris")  # which has no types

with atheris.instrument_imports(include=["wicket_mcp"]):
    from wicket_mcp.budget import check_own_arguments
    from wicket_mcp.codec import decode, encode
    from wicket_mcp.config.read.formats import parse
    from wicket_mcp.errors import BadArguments, ConfigError
    from wicket_mcp.framing import LineFramer, LineTooLong
    from wicket_mcp.large_json import decode_in_pieces, encode_in_pieces
    from wicket_mcp.model import Tool, as_object
    from wicket_mcp.results.paths import select
    from wicket_mcp.results.references import find_references, replace_references
    from wicket_mcp.rpc import Rpc, list_messages
    from wicket_mcp.schema.arguments import fit_arguments, parse_arguments
    from wicket_mcp.schema.signature import describe
    from wicket_mcp.surface.problems import RpcProblem
    from wicket_mcp.surface.protocol import is_modern, read_message
    from wicket_mcp.upstream.event_stream import EventParser, OversizedEventError


def framing(data: bytes) -> None:
    framer, whole = LineFramer(256), LineFramer(256)
    with suppress(LineTooLong):
        lines = [line for at in range(0, len(data), 7) for line in framer.feed(data[at : at + 7])]
        assert lines == whole.feed(data)


def events(data: bytes) -> None:
    parser = EventParser(256)
    with suppress(OversizedEventError):
        for at in range(0, len(data), 7):
            parser.feed(data[at : at + 7])
        parser.end()


def messages(data: bytes) -> None:
    """Of a client in both eras, and of a server."""
    with suppress(ValueError):
        content: Any = decode(data)
        with suppress(ValueError):
            list_messages(content)
        with suppress(RpcProblem):
            is_modern(read_message(content))
        peer = Rpc("x", lambda message: None)
        peer.receive(content)


def json_text(data: bytes) -> None:
    try:
        expected = decode(data, strict=True)
    except ValueError:
        with suppress(ValueError):
            decode_in_pieces(data, strict=True, window=64)
        return
    assert decode_in_pieces(data, strict=True, window=max(64, len(data) // 3)) == expected
    assert decode(encode_in_pieces(expected, 64)) == decode(encode(expected))


def schemas(data: bytes) -> None:
    schema, _, arguments = data.partition(b"\x00")
    with suppress(ValueError, BadArguments):
        definition = {"name": "t", "inputSchema": as_object(decode(schema)), "description": "d"}
        tool = Tool("x", "t", definition)
        describe(tool, "full")
        fit_arguments(tool, parse_arguments(decode(arguments)))


def references(data: bytes) -> None:
    with suppress(ValueError, BadArguments):
        arguments = decode(data)
        found = find_references(arguments)
        replace_references(arguments, found, {one.handle: {"content": []} for one in found}, lambda place: False)


def paths(data: bytes) -> None:
    path, _, value = data.partition(b"\x00")
    with suppress(ValueError, BadArguments):
        select(decode(value), path.decode("utf-8", "replace"))


def configuration(data: bytes) -> None:
    with suppress(ConfigError):
        parse(data.decode("utf-8", "replace"))


def arguments(data: bytes) -> None:
    """Of our own tools, in whatever dialect."""
    with suppress(ValueError, BadArguments):
        check_own_arguments(as_object(decode(data)))


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (framing, events, messages, json_text, schemas, references, paths, configuration, arguments)
}

if __name__ == "__main__":
    chosen = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, chosen)
    atheris.Fuzz()
