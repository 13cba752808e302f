"""Upstreams that go wrong in one named way each, started as `python stdio_peer.py NAME`.

`Echo` is healthy; every other class is `Echo` with one fault. They speak raw JSON-RPC over their pipes and depend on
nothing, so that what they do is what is written here.
"""

import base64
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

Message = dict[str, Any]

ECHO = {
    "name": "echo",
    "description": "Echo the message back.",
    "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
    "vendorField": {"kept": True},
}


class Echo:
    """A healthy legacy server. Its slow calls are answered when `release` is called or SIGUSR1 arrives."""

    tools: ClassVar[list[Message]] = [
        ECHO,
        {"name": "pid", "inputSchema": {"type": "object"}},
        {
            "name": "big",
            "description": "Return many rows.",
            "inputSchema": {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]},
        },
        {"name": "rich", "description": "Content of every type.", "inputSchema": {"type": "object"}},
        {"name": "fails", "description": "Answer with isError.", "inputSchema": {"type": "object"}},
        {"name": "refuses", "description": "Answer with a JSON-RPC error.", "inputSchema": {"type": "object"}},
        {"name": "slow", "description": "Answer when released or cancelled.", "inputSchema": {"type": "object"}},
        {"name": "release", "description": "Let every slow call answer.", "inputSchema": {"type": "object"}},
        {"name": "steps", "description": "Report progress, then answer.", "inputSchema": {"type": "object"}},
        {"name": "calls", "description": "What was called and cancelled so far.", "inputSchema": {"type": "object"}},
    ]

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting: list[Any] = []
        self.requests: list[str] = []
        self.cancelled = 0

    def release(self, *_: Any) -> None:
        waiting, self.waiting = self.waiting, []
        for number in waiting:
            self.text(number, "released")

    def run(self) -> None:
        signal.signal(signal.SIGUSR1, self.release)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "notifications/cancelled":
                self.cancelled += 1
                number = message["params"]["requestId"]
                if number in self.waiting:
                    self.waiting.remove(number)
            if "id" in message and "method" not in message:
                self.on_reply(message)
            if "id" in message and "method" in message:
                self.requests.append(message["method"])
                self.on_request(message)

    def on_reply(self, message: Message) -> None:
        """The client answered a question of ours."""

    def on_request(self, message: Message) -> None:
        method, number, params = message["method"], message["id"], message.get("params", {})
        if method == "initialize":
            self.on_initialize(number, params)
        elif method == "tools/list":
            self.on_list(number, params)
        elif method == "tools/call":
            self.on_call(number, params["name"], params.get("arguments", {}), params.get("_meta", {}))
        elif method == "ping":
            self.answer(number, {})
        else:
            self.refuse(number, -32601, "Method not found")

    def on_initialize(self, number: Any, params: Message) -> None:
        self.answer(
            number,
            {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": type(self).__name__, "version": "1.0"},
                "instructions": "A peer for tests.",
            },
        )

    def on_list(self, number: Any, params: Message) -> None:
        self.answer(number, {"tools": self.tools})

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "echo":
            self.text(number, arguments["message"])
        elif name == "pid":
            self.text(number, str(os.getpid()))
        elif name == "big":
            rows = [{"id": n, "name": f"row {n}", "odd": n % 2 == 1} for n in range(arguments["rows"])]
            self.answer(number, {"content": [{"type": "text", "text": json.dumps({"items": rows})}]})
        elif name == "rich":
            self.answer(number, RICH)
        elif name == "fails":
            self.answer(number, {"content": [{"type": "text", "text": "it went wrong"}], "isError": True})
        elif name == "refuses":
            self.refuse(number, arguments.get("code", -32050), "not today", {"reason": "closed"})
        elif name == "slow":
            self.waiting.append(number)
        elif name == "release":
            self.release()
            self.text(number, "done")
        elif name == "steps":
            for step in (1, 2, 3):
                self.notify("notifications/progress", {"progressToken": meta.get("progressToken"), "progress": step})
            self.text(number, "three steps")
        elif name == "calls":
            self.answer(
                number,
                {
                    "content": [],
                    "structuredContent": {
                        "calls": self.requests.count("tools/call"),
                        "lists": self.requests.count("tools/list"),
                        "waiting": len(self.waiting),
                        "cancelled": self.cancelled,
                        "environment": sorted(os.environ),
                    },
                },
            )

    def text(self, number: Any, text: str) -> None:
        self.answer(number, {"content": [{"type": "text", "text": text}]})

    def answer(self, number: Any, result: Message) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def refuse(self, number: Any, code: int, message: str, data: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message, "data": data}})

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def send(self, message: Message) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        with self.lock:
            while data:  # unbuffered: a signal handler may write in the middle of it
                data = data[os.write(1, data) :]


RICH: Message = {
    "content": [
        {"type": "text", "text": "words", "vendor": 1},
        {"type": "image", "data": base64.b64encode(b"pixels").decode(), "mimeType": "image/png"},
        {"type": "audio", "data": base64.b64encode(b"waves").decode(), "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "inside", "mimeType": "text/plain"}},
        {"type": "hologram", "of": "the future"},
    ],
    "structuredContent": {"exact": 12345678901234567890123, "half": 0.5},
    "_meta": {"vendor/trace": "abc"},
    "vendorTop": [1, 2],
}


class Counts(Echo):
    """Writes every message that it echoes to the file in the variable COUNTED, and `twice` where it is not alone."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = Path(os.environ["COUNTED"])
        self.alive = self.counted.with_suffix(".alive").open("w")
        try:
            fcntl.flock(self.alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.count("twice")

    def count(self, line: str) -> None:
        with self.counted.open("a") as file:
            file.write(f"{line}\n")

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if "message" in arguments:
            self.count(arguments["message"])
        super().on_call(number, name, arguments, meta)


class LeavesAfterCalls(Counts):
    """Ends when it has answered a call."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        super().on_call(number, name, arguments, meta)
        sys.stdout.flush()
        os._exit(0)


class Modern(Echo):
    """Speaks the stateless era only."""

    def on_request(self, message: Message) -> None:
        if message["method"] == "server/discover":
            self.answer(
                message["id"],
                {
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "Modern", "version": "2.0"}},
                },
            )
        elif "io.modelcontextprotocol/protocolVersion" not in message.get("params", {}).get("_meta", {}):
            self.refuse(message["id"], -32022, "Unsupported protocol version")
        else:
            super().on_request(message)

    def answer(self, number: Any, result: Message) -> None:
        super().answer(number, {"resultType": "complete", **result})


class AsksTwice(Modern):
    """Asks for a colour and then for a size before it answers a call, in the stateless era; with STATELESS, it leaves
    no state with its client.
    """

    def on_request(self, message: Message) -> None:
        params: Message = message.get("params", {})
        known = params.get("inputResponses", {})
        if message["method"] != "tools/call" or "size" in known:
            super().on_request(message)
            return
        key = "size" if "colour" in known else "colour"
        form: Message = {"message": f"Which {key}?", "requestedSchema": {"type": "object", "properties": {}}}
        asked: Message = {"inputRequests": {key: {"method": "elicitation/create", "params": form}}}
        state = {} if os.environ.get("STATELESS") else {"requestState": f"waits for {key}"}
        self.answer(message["id"], {"resultType": "input_required", **asked, **state})


class LeavesAfterCallsInModernEra(LeavesAfterCalls, Modern):
    """Ends when it has answered a call, in the stateless era."""


class LeavesInCalls(Counts):
    """Ends when it has run a call, without an answer."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        self.count(arguments["message"])
        os._exit(0)


class LeavesInCallsInModernEra(LeavesInCalls, Modern):
    """Ends when it has run a call, without an answer, in the stateless era."""


class Mutates(Echo):
    """Offers what the file in the variable LISTING says at that moment: tools, prompts, templates; knows every name."""

    @property
    def listing(self) -> Message:
        return json.loads(Path(os.environ["LISTING"]).read_bytes())

    def on_initialize(self, number: Any, params: Message) -> None:
        self.answer(
            number,
            {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
                "serverInfo": self.listing.get("serverInfo", {"name": "Mutates", "version": "1.0"}),
                "instructions": self.listing.get("instructions", ""),
            },
        )

    def on_request(self, message: Message) -> None:
        method, number = message["method"], message["id"]
        if method == "tools/list":
            self.answer(number, {"tools": self.listing["tools"]})
        elif method == "prompts/list":
            self.answer(number, {"prompts": self.listing.get("prompts", [])})
        elif method == "resources/list":
            self.answer(number, {"resources": self.listing.get("resources", [])})
        elif method == "resources/templates/list":
            self.answer(number, {"resourceTemplates": self.listing.get("templates", [])})
        elif method == "prompts/get":
            self.answer(number, {"messages": self.listing.get("messages", [])})
        elif method == "resources/read":
            self.answer(number, {"contents": self.listing["contents"]})
        elif method == "tools/call" and message["params"]["name"] in self.listing.get("errors", {}):
            self.refuse(number, **self.listing["errors"][message["params"]["name"]])
        elif method == "tools/call":
            own = self.listing.get("results", {}).get(message["params"]["name"])
            ran = {"content": [{"type": "text", "text": "it ran"}]}
            self.answer(number, own or self.listing.get("result") or ran)
        else:
            super().on_request(message)


class TellsOfChanges(Mutates):
    """Says that its list has changed when `tell` is called, and then answers. Counts calls of `send`, and its lists."""

    sent = lists = 0

    def on_request(self, message: Message) -> None:
        name = message.get("params", {}).get("name")
        self.lists += message["method"] == "tools/list"
        if name == "tell":
            self.notify("notifications/tools/list_changed")
        elif name == "send":
            self.sent += 1
        if message["method"] == "tools/list" and not self.listing["tools"]:
            self.refuse(message["id"], -32000, "not today")
        elif name == "calls":
            self.text(message["id"], json.dumps({"sent": self.sent, "lists": self.lists}))
        else:
            super().on_request(message)


class SaysItsKey(Echo):
    """Answers every call with the variable KEY that it was started with."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        self.text(number, os.environ["KEY"])


HOSTILE = "<script>window.hurt=1</script><img src=x onerror=window.hurt=1>\"'><svg onload=window.hurt=1>{{7*7}}\u202e"


class Hostile(Echo):
    """Whatever it says about itself and answers would run in a page that takes it for markup."""

    tools: ClassVar[list[Message]] = [
        {
            "name": "attack",
            "title": HOSTILE,
            "description": HOSTILE,
            "annotations": {"title": HOSTILE, HOSTILE: HOSTILE},
            "inputSchema": {
                "type": "object",
                "properties": {
                    HOSTILE: {"type": "string", "description": HOSTILE},
                    "pick": {"type": "string", "enum": [HOSTILE, "b"]},
                },
            },
        },
    ]

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        sys.stderr.write(f"{HOSTILE}\n")
        sys.stderr.flush()
        self.text(number, HOSTILE)


class DiesMidCall(Echo):
    """Is killed by the call of `slow`, after saying a last word on stderr."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "slow":
            sys.stderr.write("about to die of natural causes\n")
            sys.stderr.flush()
            os.kill(os.getpid(), 9)
        super().on_call(number, name, arguments, meta)


class NeverAnswers(Echo):
    """Reads everything and says nothing."""

    def on_request(self, message: Message) -> None:
        return


class ExitsAtOnce(Echo):
    """Leaves with a complaint before it says anything."""

    def run(self) -> None:
        sys.stderr.write("cannot find my config, token=hunter2-secret\n")
        sys.exit(3)


class WritesGarbage(Echo):
    """Decorates every message with what does not belong on stdout."""

    def write(self, data: bytes) -> None:
        super().write(b"\xef\xbb\xbfstarting up...\r\n\x00\xff\xfe binary\n{broken json\n\n[]\n42\n")
        super().write(data.rstrip(b"\n") + b"\r\n")


class BadCharacters(Echo):
    """Answers with a byte that is no UTF-8 and half of a surrogate pair."""

    def text(self, number: Any, text: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "@@"}]}})
        self.write(body.encode().replace(b"@@", b"caf\xe9 \\ud83d") + b"\n")


class EndlessLine(Echo):
    """Answers a call of `slow` with a line that never ends."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        while name == "slow":
            self.write(b"x" * 65536)
        super().on_call(number, name, arguments, meta)


class AnswersTooMuch(Echo):
    """Keeps calls of `slow` waiting until `echo` is called; answers that with megabytes, and then all the others.

    They are three, or as many mebibytes as the variable MEBIBYTES says.
    With `id last`, the id stands behind the result; with `garbage`, five thousand lines of it come before the answers.
    """

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        message = arguments.get("message", "")
        if name != "echo" or message == "still here":
            super().on_call(number, name, arguments, meta)
            return
        large = int(os.environ.get("MEBIBYTES", "0")) * 2**20 or 3_000_000
        result = {"content": [{"type": "text", "text": "x" * large}]}
        if message == "id last":
            self.send({"jsonrpc": "2.0", "result": result, "id": number})
        elif message == "garbage":
            self.write(b"a line of some log\n" * 5_000)
            self.text(number, message)
        else:
            self.answer(number, result)
        self.release()


class ClosesStdin(Echo):
    """Stops listening when `slow` is called, but stays alive."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "slow":
            os.close(0)
            threading.Event().wait()
        super().on_call(number, name, arguments, meta)


class FloodsStdout(Echo):
    """Writes lines that are no JSON without end when `slow` is called."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        while name == "slow":
            self.write(b"log line\n" * 100)
        super().on_call(number, name, arguments, meta)


class FloodsProgress(Echo):
    """Reports progress and logs without end when `slow` is called, until that call is cancelled."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        super().on_call(number, name, arguments, meta)
        if name == "slow":
            threading.Thread(target=self.flood, args=(number, meta["progressToken"]), daemon=True).start()

    def flood(self, number: Any, token: Any) -> None:
        progress = 0
        while number in self.waiting:
            progress += 1
            said = {"progressToken": token, "progress": progress, "message": "x" * 999}
            self.notify("notifications/progress", said)
            if progress % 100 == 0:
                self.notify("notifications/message", {"level": "error", "data": "y" * 99})


class FloodsStderr(Echo):
    """Writes to stderr all the time."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self.flood, daemon=True).start()

    def flood(self) -> None:
        while True:
            sys.stderr.write("still here " * 1000 + "\n")


class HasChild(Echo):
    """Starts a process of its own that would outlive it."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "pid":
            child = subprocess.Popen(["sleep", "600"])
            self.text(number, str(child.pid))
        else:
            super().on_call(number, name, arguments, meta)


class IgnoresTerm(Echo):
    """Does not leave when asked: neither at the end of its input nor on SIGTERM."""

    def run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()
        threading.Event().wait()


class OneBadTool(Echo):
    """Lists tools that are none among good ones."""

    tools: ClassVar[list[Message]] = [
        ECHO,
        {"name": "no_schema"},
        {"name": "wrong", "inputSchema": {"type": "string"}},
        {"inputSchema": {"type": "object"}},
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "untyped", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#"}},
    ]


class ManyPages(Echo):
    """Lists 7 tools, one a page."""

    def on_list(self, number: Any, params: Message) -> None:
        page = int(params.get("cursor", "0"))
        tools = [{"name": f"tool_{page}", "inputSchema": {"type": "object"}}]
        more = {"nextCursor": str(page + 1)} if page < 6 else {}
        self.answer(number, {"tools": tools, **more})


class EndlessPages(Echo):
    """Lists for ever."""

    def on_list(self, number: Any, params: Message) -> None:
        page = int(params.get("cursor", "0"))
        tools = [{"name": f"tool_{page}", "inputSchema": {"type": "object"}}]
        self.answer(number, {"tools": tools, "nextCursor": str(page + 1)})


class GrowsATool(Echo):
    """Has one tool more after `release` was called, and says so, a thousand times."""

    grown = False

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "release":
            self.grown = True
            for _ in range(1000):
                self.notify("notifications/tools/list_changed")
        super().on_call(number, name, arguments, meta)

    def on_list(self, number: Any, params: Message) -> None:
        extra = [{"name": "grown", "inputSchema": {"type": "object"}}] if self.grown else []
        self.answer(number, {"tools": self.tools + extra})


class ChangesAllTheTime(Echo):
    """After `release` its list is another one two thousand times, a millisecond apart, and it says so each time."""

    version = 0

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "release":
            threading.Thread(target=self.change, daemon=True).start()
            self.text(number, "it begins")
        else:
            super().on_call(number, name, arguments, meta)

    def change(self) -> None:
        pause = threading.Event()
        for version in range(1, 2001):
            self.version = version
            self.notify("notifications/tools/list_changed")
            pause.wait(0.001)

    def on_list(self, number: Any, params: Message) -> None:
        self.answer(number, {"tools": [*self.tools, {"name": f"v{self.version}", "inputSchema": {"type": "object"}}]})


class TellsWhileItAsks(Echo):
    """A call of `slow` asks its client something; `release` has it tell of progress before there is a reply."""

    token: Any = None

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "slow":
            self.token = meta.get("progressToken")
            self.waiting.append(number)
            params: Message = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
            self.send({"jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params})
        elif name == "release":
            for step in (1, 2, 3):
                self.notify("notifications/progress", {"progressToken": self.token, "progress": step, "total": 3})
            self.text(number, "told")
        else:
            super().on_call(number, name, arguments, meta)

    def on_reply(self, message: Message) -> None:
        outcome = message.get("result", message)
        self.text(self.waiting.pop(), f"the client says {outcome.get('action', outcome)}")


class AsksThenWaits(Echo):
    """A call of `slow` asks its client something, and waits like every slow call once there is a reply."""

    asking: Any = None

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        if name == "slow":
            self.asking = number
            params: Message = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
            self.send({"jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params})
        else:
            super().on_call(number, name, arguments, meta)

    def on_reply(self, message: Message) -> None:
        self.waiting.append(self.asking)


class AnswersWildly(Echo):
    """Answers twice, under unknown ids, and with shapes that mean nothing."""

    def answer(self, number: Any, result: Message) -> None:
        self.send({"jsonrpc": "2.0", "id": 99999, "result": {"content": []}})
        self.send({"jsonrpc": "2.0", "id": "text", "result": None})
        self.send({"jsonrpc": "2.0", "method": 7})
        super().answer(number, result)
        super().answer(number, {"content": [{"type": "text", "text": "second answer"}]})


class SlowStart(Echo):
    """Takes its time before it reads anything."""

    def run(self) -> None:
        time.sleep(float(os.environ.get("SLOW_START", "1")))
        super().run()


class Asks(Echo):
    """Asks its client for a sample while it is called."""

    def on_call(self, number: Any, name: str, arguments: Message, meta: Message) -> None:
        self.send({"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {"messages": []}})
        reply = json.loads(sys.stdin.buffer.readline())
        self.text(number, json.dumps(reply.get("error", {})))


if __name__ == "__main__":
    globals()[sys.argv[1]]().run()
