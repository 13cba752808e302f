"""A healthy echo server, and servers that are bad in one way each: `python bad_server.py NAME`."""

import json
import os
import sys
import time
from typing import Any

TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}},
    {"name": "slow", "inputSchema": {"type": "object"}},
]


class Echo:
    """Echoes; never answers `slow`."""

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self.answer(message["id"], message["method"], message.get("params", {}))

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            version = "2025-11-25"  # whatever was asked for
            info = {"name": "bad", "version": "1"}
            self.result(
                number,
                {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info},
            )
        elif method == "tools/list":
            self.result(number, {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"})
        elif method == "ping":
            self.result(number, {})
        elif method == "tools/call" and params["name"] == "echo":
            self.result(number, {"content": [{"type": "text", "text": params["arguments"].get("message", "")}]})
        elif method == "tools/call":
            self.slow(number)
        else:
            self.send({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})

    def slow(self, number: Any) -> None:
        """Never answered."""

    def result(self, number: Any, result: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class Floods(Echo):
    """Answers `slow` after a hundred thousand notifications."""

    def slow(self, number: Any) -> None:
        line = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        )
        for _ in range(100):
            sys.stdout.write((line + "\n") * 1000)
        self.result(number, {"content": []})


class DiesMidCall(Echo):
    """Is gone as soon as `slow` is called."""

    def slow(self, number: Any) -> None:
        os._exit(1)


class Slow(Echo):
    """Takes half a second for `slow`, and does nothing else meanwhile."""

    def slow(self, number: Any) -> None:
        time.sleep(0.5)
        self.result(number, {"content": []})


class Changes(Echo):
    """Has other texts for its forty tools whenever `slow` is called."""

    turns = 0

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "tools/list":
            changed = [{**TOOLS[0], "name": f"echo_{place}", "description": self._text(place)} for place in range(40)]
            self.result(number, {"tools": [*changed, *TOOLS]})
        else:
            super().answer(number, method, params)

    def _text(self, place: int) -> str:
        """Two kilobytes that nobody has said before."""
        return " ".join(f"w{self.turns * 7919 + place * 104729 + word:x}" for word in range(300))

    def slow(self, number: Any) -> None:
        self.turns += 1
        self.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        self.result(number, {"content": []})


if __name__ == "__main__":
    {"Echo": Echo, "Changes": Changes, "Floods": Floods, "DiesMidCall": DiesMidCall, "Slow": Slow}[sys.argv[1]]().run()
