"""Whatever JSON a peer sends, it costs itself only."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.framing import LineFramer
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.rpc import Callbacks, Rpc, list_messages

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
METHODS = st.sampled_from(["notifications/progress", "notifications/cancelled", "ping", "notifications/message"])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": VALUES,
        "id": VALUES,
        "method": METHODS | VALUES,
        "params": VALUES | st.fixed_dictionaries({}, optional={"progressToken": VALUES, "requestId": VALUES}),
        "result": VALUES,
        "error": VALUES | st.fixed_dictionaries({}, optional={"code": VALUES, "message": VALUES}),
    },
)
ANYTHING = VALUES | MESSAGES | st.lists(VALUES | MESSAGES, max_size=4)


@given(st.lists(ANYTHING, max_size=5))
@pytest.mark.promise("F4", "An answer arrives, no matter which messages came before it.")
async def test_f4_the_answer_behind_any_messages_arrives(messages: list[Any]) -> None:
    sent: list[JsonObject] = []

    def ignore(method: str, params: JsonObject) -> None:
        assert isinstance(method, str)

    async def answer(method: str, params: JsonObject) -> JsonObject:
        return {"method": method}

    rpc = Rpc("peer", sent.append, Callbacks(ignore, answer), id_prefix="a long prefix ")
    callbacks = Callbacks(ignore)
    request = asyncio.ensure_future(rpc.request("x", {"_meta": {"progressToken": 0}}, callbacks))
    await asyncio.sleep(0)
    for message in messages:
        rpc.receive(message)
    rpc.receive({"id": sent[0]["id"], "result": {"ok": True}})
    assert await request == {"ok": True}
    await rpc.close()


@given(ANYTHING)
def test_reading_messages_gives_objects_or_a_value_error(content: Any) -> None:
    parts = as_list(content) if isinstance(content, list) else [content]
    objects = [part for part in parts if as_object(part)]
    try:
        assert list_messages(content) == objects
    except ValueError:
        assert not objects


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    framer = LineFramer(2**20)
    assert [line for at in range(0, len(data), size) for line in framer.feed(data[at : at + size])] == lines
