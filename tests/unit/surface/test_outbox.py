"""What waits for a slow client: bounded, in order, and never without its answer."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from wicket_mcp.codec import decode
from wicket_mcp.errors import Overloaded
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.event_stream import EventStream
from wicket_mcp.surface.outbox import Counters, Outbox, StallWatch

ANSWER: JsonObject = {"jsonrpc": "2.0", "id": 1, "result": {}}


def _progress(token: Any, done: int) -> JsonObject:
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": done}}


def _log(text: str) -> JsonObject:
    return {"method": "notifications/message", "params": {"level": "info", "data": text}}


def _taken(outbox: Outbox) -> list[JsonObject]:
    return [decode(data) for data in outbox.take_each()]


def test_within_the_bound_everything_is_sent_in_order() -> None:
    outbox = Outbox()
    messages = [_progress("a", 1), _log("x"), _progress("a", 2), ANSWER]
    for message in messages:
        outbox.put(message)
    assert _taken(outbox) == messages
    assert (outbox.size, outbox.take()) == (0, b"")


@pytest.mark.promise("V3", "Of many progress messages, only the last one for each token is kept.")
def test_v3_b12_a_flood_of_progress_keeps_the_last_of_each_token() -> None:
    """B12: an upstream that floods progress made the frames for a slow client grow without end."""
    counters = Counters()
    outbox = Outbox(limit=2000, counters=counters)
    for number in range(10_000):
        outbox.put(_progress("a", number))
        outbox.put(_progress("b", number))
        assert outbox.size <= 4000
    outbox.put(ANSWER)
    *before, last_a, last_b, answer = _taken(outbox)
    assert (last_a, last_b, answer) == (_progress("a", 9999), _progress("b", 9999), ANSWER)
    assert before[0] == _progress("a", 0), "what came first is not lost"
    assert counters.replaced == 20_000 - len(before) - 2
    assert counters.dropped == 0


def test_b12_a_flood_of_logs_is_dropped_and_counted() -> None:
    counters = Counters()
    outbox = Outbox(limit=2000, counters=counters)
    for number in range(10_000):
        outbox.put(_log(str(number)))
    assert outbox.size <= 2000
    kept = _taken(outbox)
    assert kept == [_log(str(number)) for number in range(len(kept))]
    assert counters.dropped == 10_000 - len(kept)


def test_a_token_may_be_anything_that_json_has() -> None:
    outbox = Outbox(limit=0)
    tokens: list[Any] = [{}, [], None, 1, "1"]
    for token in tokens:
        outbox.put(_progress(token, 1))
        outbox.put(_progress(token, 2))
    assert outbox.size == 0, "each is larger than the bound"
    outbox = Outbox(limit=1000)
    outbox.put({"id": 1, "result": "x" * 1000})
    for token in tokens:
        outbox.put(_progress(token, 1))
        outbox.put(_progress(token, 2))
    assert _taken(outbox)[1:] == [_progress(token, 2) for token in tokens]


def test_changes_that_say_the_same_are_sent_once() -> None:
    outbox = Outbox(limit=200)
    outbox.put({"id": 1, "result": "x" * 200})
    changed: JsonObject = {"method": "notifications/tools/list_changed"}
    for _ in range(1000):
        outbox.put(changed)
    assert _taken(outbox)[1:] == [changed]


def test_many_different_notifications_stay_within_twice_the_bound() -> None:
    counters = Counters()
    outbox = Outbox(limit=2000, counters=counters)
    for number in range(1000):
        outbox.put({"method": "notifications/resources/updated", "params": {"uri": f"file:///{number}"}})
    assert outbox.size <= 4000
    assert counters.dropped + len(_taken(outbox)) == 1000


def test_answers_are_kept_whatever_waits_and_questions_are_not_asked() -> None:
    outbox = Outbox(limit=100)
    answers: list[JsonObject] = [{"id": number, "result": "x" * 50} for number in range(100)]
    for answer in answers:
        outbox.put(answer)
    assert outbox.full
    with pytest.raises(Overloaded, match="does not read"):
        outbox.put({"id": "wicket-1", "method": "roots/list"})
    cancelled: JsonObject = {"method": "notifications/cancelled", "params": {"requestId": "wicket-0"}}
    outbox.put(cancelled)
    assert _taken(outbox) == [*answers, cancelled]


@pytest.mark.promise("V3", "A client that reads nothing costs a fixed number of bytes, and still gets its answer.")
async def test_v3_b12_a_stream_whose_client_reads_nothing_is_bounded_and_ends_with_its_answer() -> None:
    counters = Counters()
    stream = EventStream(counters)
    reads = asyncio.Event()
    sent: list[bytes] = []

    async def send(event: Any) -> None:
        await reads.wait()
        sent.append(event.get("body", b""))

    async with asyncio.TaskGroup() as group:
        group.create_task(stream.run(send))
        for number in range(50_000):
            stream.post(_progress("a", number))
        stream.post(ANSWER)
        stream.end()
        reads.set()
    events = b"".join(sent).split(b"\n\n")[:-1]
    assert [decode(event.partition(b"data: ")[2]) for event in events[-2:]] == [_progress("a", 49_999), ANSWER]
    assert len(b"".join(sent)) < 1_100_000
    assert counters.replaced > 0


class _Writer(asyncio.Protocol):
    """Writes more than a socket holds to somebody who does not read."""

    def __init__(self, is_due: Callable[[], bool]) -> None:
        self._is_due = is_due
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.stall = StallWatch(transport, self._is_due, seconds=0.01)

    def pause_writing(self) -> None:
        self.stall.pause()

    def resume_writing(self) -> None:
        self.stall.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stall.resume()
        self.lost.set()


@pytest.mark.promise("V18", "A client that reads nothing is cut off.")
async def test_v18_a_client_that_takes_nothing_is_cut() -> None:
    ours, theirs = socket.socketpair()
    asked: list[bool] = []

    def is_due() -> bool:
        asked.append(len(asked) == 2)  # not the first two times
        return asked[-1]

    with theirs:
        _, writer = await asyncio.get_running_loop().create_connection(lambda: _Writer(is_due), sock=ours)
        writer.transport.write(bytes(8 * 1024 * 1024))
        await writer.lost.wait()
    assert asked == [False, False, True]
