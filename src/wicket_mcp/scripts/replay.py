"""Replays the recorded answers of a script's calls to a second run, so that nothing is called twice.

The child's end of a channel, with a record in place of the gateway: calls are compared with it and answered from it, in
the order of the first run; only the end is passed on. Knows no language.
"""

import msgspec

from wicket_mcp.scripts.frames import CALLS, DONE, FAILED, REPLIES, Channel


class RecordedReply(msgspec.Struct, frozen=True, array_like=True):
    """One answer: the call's number and name, whether it was a success, and the value or message."""

    number: int
    server: str
    tool: str
    ok: bool
    value: msgspec.Raw


class Diverged(Exception):
    """The script behaves differently from the first run, or goes further: its call has no recorded answer."""


class ReplayChannel(Channel):
    """A channel that answers calls by itself."""

    def __init__(self, real: Channel, answers: list[RecordedReply]) -> None:
        super().__init__(real.sock)
        self._answers = {answer.number: answer for answer in answers}
        self._asked: set[int] = set()

    def send(self, kind: bytes, payload: bytes) -> None:
        if kind == CALLS:
            for number, server, tool, _ in msgspec.json.decode(payload):
                answer = self._answers.get(number)
                if answer is not None and (answer.server, answer.tool) != (server, tool):
                    raise Diverged
                self._asked.add(number)
        elif kind in (DONE, FAILED):
            super().send(kind, payload)

    def receive(self) -> tuple[bytes, bytes]:
        """The first recorded answer among the awaited ones. Raises Diverged."""
        for number, answer in self._answers.items():
            if number in self._asked:
                del self._answers[number]
                reply = [number, answer.ok, answer.value]
                return REPLIES, b"[%s]" % msgspec.json.encode(reply)
        raise Diverged

    def wait(self, seconds: float | None) -> bool:
        return True
