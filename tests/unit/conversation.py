"""JSON-RPC conversations as text: what comes in, what goes out, in order; a difference is printed as a diff.

    call a: tools/call {"name": "x"}        we begin a request and call it `a`
    << {"id": 1, "method": "tools/call", "params": {"name": "x"}}
    >> {"id": 1, "result": {"ok": true}}    the peer sends this; `a>>` where it comes with the answer to `a`
    a = {"ok": true}

Other lines of ours: `cancel a`, `reply METHOD JSON` (the oldest open question of the peer is answered), `deny METHOD`,
`gone` (sending fails from now on), `fail` (the transport has ended). Other lines that come out: `a raises TYPE`,
`a hears METHOD JSON`, `hears METHOD JSON` (it belongs to no request), `asked METHOD JSON`, `withdrawn METHOD`, `stray`.
"jsonrpc" is left out of messages. Each line is given some turns of the event loop, so nothing here depends on time.
"""

import asyncio
import difflib
import json
import re
from collections.abc import Coroutine
from typing import Any

from wicket_mcp.errors import Crashed, Denied
from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import Callbacks, OnNotification, Rpc

TURNS = 12
_OURS = re.compile(r"(?P<of>\w*)>> (?P<message>.+)|(?P<verb>call|cancel|reply|deny|gone|fail)\b ?(?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+): (?P<method>\S+) (?P<params>.+)")


class Conversation:
    """One peer, an in-memory sink (a pipe, or posts that take a turn each), and what happened so far."""

    def __init__(self, *, posts: bool = False, id_prefix: str = "", listener: OnNotification | None = None) -> None:
        """`listener` replaces what hears the notifications that belong to a call."""
        self._posts = posts
        self._listener = listener
        self._lines: list[str] = []
        self._outcomes: list[str] = []
        """Of calls that ended in this step: told last, because a post takes longer than a pipe."""
        self._gone = False
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._callbacks: dict[str, Callbacks] = {}
        self._questions: list[tuple[str, asyncio.Future[JsonObject]]] = []
        self.rpc = Rpc("peer", self._send, Callbacks(self._hears, self._asked), id_prefix=id_prefix)

    async def __aenter__(self) -> "Conversation":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rpc.close()
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    async def check(self, transcript: str) -> None:
        """Run the lines that are ours, and compare all that happened with `transcript`."""
        expected = [_normalise(line) for line in transcript.splitlines() if line.strip()]
        self._lines = []
        for line in expected:
            if ours := _OURS.fullmatch(line):
                self._lines.append(line)
                strays = self.rpc.strays
                self._run(ours)
                for _ in range(TURNS):
                    await asyncio.sleep(0)
                self._lines += self._outcomes
                self._outcomes = []
                self._lines += ["stray"] * (self.rpc.strays - strays)
        difference = "\n".join(difflib.unified_diff(expected, self._lines, "expected", "happened", "", "", 99, ""))
        assert not difference, f"\n{difference}"

    # Our lines

    def _run(self, line: re.Match[str]) -> None:
        verb, rest = line["verb"], line["rest"]
        if verb is None:
            self.rpc.receive(json.loads(line["message"]), self._callbacks.get(line["of"], Callbacks()))
        elif verb == "call":
            self._call(rest)
        elif verb == "cancel":
            self._calls[rest].cancel()
        elif verb == "gone":
            self._gone = True
        elif verb == "fail":
            self.rpc.fail(Crashed("peer", "It ended."))
        else:
            self._reply(*rest.partition(" ")[::2])

    def _call(self, rest: str) -> None:
        parts = _CALL.fullmatch(rest)
        assert parts, f"not a call: {rest}"
        name = parts["name"]

        def hears(method: str, params: JsonObject) -> None:
            self._lines.append(f"{name} hears {method} {_text(params)}")

        self._callbacks[name] = callbacks = Callbacks(self._listener or hears, self._asked)
        work = self._outcome(name, self.rpc.request(parts["method"], json.loads(parts["params"]), callbacks))
        self._calls[name] = asyncio.create_task(work)

    async def _outcome(self, name: str, work: Coroutine[Any, Any, JsonObject]) -> None:
        try:
            result = await work
            self._outcomes.append(f"{name} = {_text(result)}")
        except (Exception, asyncio.CancelledError) as problem:
            self._outcomes.append(f"{name} raises {type(problem).__name__}")

    def _reply(self, method: str, result: str) -> None:
        index = next(index for index, (asked, _) in enumerate(self._questions) if asked == method)
        _, question = self._questions.pop(index)
        if result:
            question.set_result(json.loads(result))
        else:
            question.set_exception(Denied("No."))

    # What comes out

    def _send(self, message: JsonObject) -> Coroutine[Any, Any, None] | None:
        if self._posts:
            return self._post(message)
        self._write(message)
        return None

    async def _post(self, message: JsonObject) -> None:
        await asyncio.sleep(0)
        self._write(message)

    def _write(self, message: JsonObject) -> None:
        if self._gone:
            raise Crashed("peer", "It is gone.")
        assert message["jsonrpc"] == "2.0"
        self._lines.append(f"<< {_text({key: value for key, value in message.items() if key != 'jsonrpc'})}")

    def _hears(self, method: str, params: JsonObject) -> None:
        self._lines.append(f"hears {method} {_text(params)}")

    async def _asked(self, method: str, params: JsonObject) -> JsonObject:
        self._lines.append(f"asked {method} {_text(params)}")
        if method == "defect":
            raise ZeroDivisionError
        question = asyncio.get_running_loop().create_future()
        self._questions.append((method, question))
        try:
            return await question
        except asyncio.CancelledError:
            self._lines.append(f"withdrawn {method}")
            raise


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _normalise(line: str) -> str:
    """The line with its JSON, which ends it, spelled in the one way."""
    line = line.strip()
    start = min(at for at in (line.find("{"), line.find("["), len(line)) if at >= 0)
    return line[:start] + _text(json.loads(line[start:])) if start < len(line) else line
