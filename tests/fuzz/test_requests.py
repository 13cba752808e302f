"""Requests of both eras, arguments of every dialect and heads of HTTP requests of any kind: answered or refused."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import OpenGateway, peer
from tests.fuzz.values import OBJECTS, TEXTS, VALUES, WITH_REFERENCES
from tests.gateway.serving import META, TOKEN, serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.factory import NAMES
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, Silent, as_object
from wicket_mcp.surface import protocol as methods
from wicket_mcp.surface.stdio import StdioClient

METHODS = sorted(getattr(methods, "_METHODS"))  # noqa: B009  (the table itself, so that no method is left out)
LEFT_OUT = {"call_tool_chain", "run_script", "execute", "register_manual"} | {
    *("install_mcp_server", "control_mcp_server", "list_claude_servers", "remove_claude_server"),
    *("check_domain_ownership", "invoke_tool", "x__slow"),
}
"""What starts processes, reaches out, edits another program's files, or never answers."""

fuzz = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
async def gateway(open_gateway: OpenGateway) -> AsyncGenerator[Gateway]:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        await gateway.tools()
        yield gateway


@pytest.fixture
def no_defect(caplog: pytest.LogCaptureFixture) -> Callable[[], None]:
    """Fails where a defect was logged."""

    def check() -> None:
        defects = [record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
        assert not defects, defects[0].exc_info

    return check


PARAMS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("name", "uri", "cursor", "level", "protocolVersion", "requestState"), TEXTS | VALUES),
        "arguments": WITH_REFERENCES | OBJECTS,
        "_meta": st.just(META) | OBJECTS | st.fixed_dictionaries({"progressToken": VALUES}),
        "ref": OBJECTS | st.fixed_dictionaries({"type": st.just("ref/prompt"), "name": TEXTS}),
        "argument": OBJECTS | st.fixed_dictionaries({"name": TEXTS, "value": TEXTS}),
        **dict.fromkeys(("capabilities", "inputResponses", "notifications"), OBJECTS | VALUES),
    },
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": st.integers() | VALUES, "method": st.sampled_from(METHODS) | TEXTS, "params": PARAMS | VALUES},
)


def _read_until(descriptor: int, last: bytes) -> list[bytes]:
    with os.fdopen(os.dup(descriptor), "rb") as pipe:
        lines = [pipe.readline()]
        while last not in lines[-1]:
            assert lines[-1], "the gateway closed its output"
            lines.append(pipe.readline())
        return lines


@pytest.mark.parametrize("params", [{}, {"taskId": 1, "uri": [], "name": {}, "cursor": 5, "level": None, "ref": "x"}])
async def test_every_method_without_its_parameters_is_answered_in_a_session(
    gateway: Gateway, no_defect: Callable[[], None], params: dict[str, Any]
) -> None:
    (source, from_client), (to_client, sink) = os.pipe(), os.pipe()
    client = StdioClient(gateway.protocol())
    await client.open(source, sink)
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [{"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": about}]
    messages += [
        {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        for method in METHODS
        if method not in ("initialize", "subscriptions/listen", "ping")
    ]
    client.data_received(b"\n".join([*map(encode, messages), b""]))
    client.data_received(b'{"jsonrpc":"2.0","id":"the last","method":"ping"}\n')
    lines = await asyncio.to_thread(_read_until, to_client, b"the last")
    assert [line for line in lines if b"-32603" in line] == []
    await client.close()
    for descriptor in (from_client, to_client, source):
        os.close(descriptor)
    no_defect()


@given(messages=st.lists(MESSAGES | VALUES, max_size=6), garbage=st.binary(max_size=30))
@fuzz
async def test_any_messages_over_stdio_are_answered_and_the_next_is_too(
    gateway: Gateway, no_defect: Callable[[], None], messages: list[Any], garbage: bytes
) -> None:
    (source, from_client), (to_client, sink) = os.pipe(), os.pipe()
    client = StdioClient(gateway.protocol())
    await client.open(source, sink)
    lines = [line for line in (encode(message) for message in messages) if b"subscriptions/listen" not in line]
    client.data_received(b"\n".join([*lines, garbage.replace(b"\n", b""), b""]))
    client.data_received(b'{"jsonrpc":"2.0","id":"the last","method":"ping"}\n')
    answers = await asyncio.to_thread(_read_until, to_client, b'"the last"')
    assert b'"result":{}' in answers[-1]
    await client.close()
    for descriptor in (from_client, to_client, source):
        os.close(descriptor)
    no_defect()


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
@fuzz
async def test_any_arguments_of_any_dialect_give_a_result_or_an_error_of_ours(
    gateway: Gateway, no_defect: Callable[[], None], dialect: str, data: st.DataObject
) -> None:
    menu = gateway.protocol(dialect).menu
    tools = [tool for tool in await menu.list(gateway.verbs) if tool["name"] not in LEFT_OUT]
    tool = data.draw(st.sampled_from(tools))
    known = list(as_object(tool["inputSchema"].get("properties"))) or ["x"]
    arguments = data.draw(
        st.dictionaries(st.sampled_from(known) | TEXTS, VALUES | WITH_REFERENCES | TEXTS, max_size=4) | VALUES
    )
    with suppress(WicketError):
        call = ToolCall(arguments, Silent(LOCAL), {"progressToken": arguments})
        result = await menu.call(gateway.verbs, tool["name"], call)
        assert isinstance(result.get("content", []), list)
    no_defect()


LINES = (
    """POST /mcp HTTP/1.1|GET / HTTP/1.1|Host: localhost|Content-Length: 2|Transfer-Encoding: chunked|Accept: */*
Mcp-Session-Id: \xff|MCP-Protocol-Version: 2026-07-28|Origin: null|Upgrade: websocket|Connection: upgrade|{}|0|a:b||
Expect: 100-continue|Authorization: Bearer """
    + TOKEN
)
HEADS = st.lists(
    st.sampled_from([line.encode("latin-1") + b"\r\n" for part in LINES.split("\n") for line in part.split("|")])
    | st.binary(max_size=20),
    max_size=12,
)


async def test_any_bytes_over_http_get_a_4xx_or_nothing(
    gateway: Gateway, no_defect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server for all examples: to start one for each would take a minute."""
    monkeypatch.setattr("wicket_mcp.surface.http_connection.HEAD_DEADLINE", 0.05)
    monkeypatch.setattr("wicket_mcp.surface.http_connection.BODY_DEADLINE", 0.05)
    loop = asyncio.get_running_loop()
    async with serve_http(gateway) as address:
        host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")

        async def send(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            with suppress(OSError):
                writer.write_eof()
            answer = b""
            with suppress(ConnectionError):
                answer = await reader.read()
            writer.close()
            return answer

        @given(HEADS)
        @fuzz
        def examples(parts: list[bytes]) -> None:
            answer = asyncio.run_coroutine_threadsafe(send(b"".join(parts)), loop).result()
            for line in answer.split(b"\r\n"):
                if line.startswith(b"HTTP/1.1 "):
                    assert line[9:12] < b"500", answer

        await asyncio.to_thread(examples)
    no_defect()
