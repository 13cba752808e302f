"""Clients of both eras that call all the time, each message once; and an account of what became of every call."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from tests.conftest import Server, peer
from tests.gateway.serving import Raw
from wicket_mcp.model import as_object
from wicket_mcp.tasks import Tasks

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}


def counting_child(file: Path, **options: Any) -> Server:
    """A command that writes what it executes to `file`."""
    file.touch()
    return peer("Counts", env={"COUNTED": str(file)}, **options)


class Load:
    """Half of the clients are legacy ones, each with a session; every client calls the tools in turn."""

    def __init__(
        self, http: aiohttp.ClientSession, address: str, tools: Sequence[str] = ("x.echo",), clients: int = 6
    ) -> None:
        self.sent: list[str] = []
        self.failed: dict[str, Any] = {}
        self.ended: list[str] = []
        """In the order of their answers."""
        self.durations: list[float] = []
        self._raw = Raw(http, f"{address}/mcp")
        self._tools = tools
        self._clients = clients
        self._begun = asyncio.Event()
        self._stop = False
        self._tasks = Tasks()

    async def start(self) -> None:
        for number in range(self._clients):
            session = await self._greet() if number % 2 else {}
            self._tasks.start(self._call_on(number, session), f"client {number}")

    async def stop(self) -> None:
        self._stop = True
        assert await self._tasks.wait(100)

    async def pass_by(self, calls: int) -> None:
        """Until so many more calls were begun."""
        until = len(self.sent) + calls
        while len(self.sent) < until:
            self._begun.clear()
            await self._begun.wait()

    def account(self, executed: Sequence[str]) -> "dict[str, list[str]]":
        """What went wrong with the calls so far, by kind: nothing but what was answered with an error may be there."""
        counted = Counter(executed)
        return {
            "failed": list(self.failed),
            "lost": [message for message in self.sent if message not in counted and message not in self.failed],
            "doubled": [message for message, count in counted.items() if count > 1],
        }

    async def _greet(self) -> dict[str, str]:
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        status, headers, body = await self._raw.post(message)
        assert status == 200, body
        return {"Mcp-Session-Id": headers["Mcp-Session-Id"]}

    async def _call_on(self, client: int, session: dict[str, str]) -> None:
        number = 0
        loop = asyncio.get_running_loop()
        while not self._stop:
            number += 1
            message = f"{client}-{number}"
            self.sent.append(message)
            self._begun.set()
            began = loop.time()
            try:
                if (wrong := await self._use(number, message, session)) is not None:
                    self.failed[message] = wrong
            except (aiohttp.ClientError, KeyError, TypeError, ValueError) as problem:  # also a page of the balancer's
                self.failed[message] = problem
            self.ended.append(message)
            self.durations.append(loop.time() - began)

    async def _use(self, number: int, message: str, session: dict[str, str]) -> Any:
        """The answer to one call if it is wrong; None if it is right."""
        arguments = {"name": self._tools[number % len(self._tools)], "arguments": {"message": message}}
        status, body = await self._call({"name": "call_tool", "arguments": arguments}, session)
        is_right = status == 200 and "error" not in body and body["result"]["content"][0]["text"] == message
        return None if is_right else body

    async def _call(self, params: dict[str, Any], session: dict[str, str]) -> tuple[int, Any]:
        if not session:
            return await self._raw.modern("tools/call", params)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        status, _, body = await self._raw.post(message, session)
        return status, body


def is_typed(problem: Any) -> bool:
    """Whether a call that failed was answered with an error that says what it was."""
    body = as_object(problem)
    if "error" in body:
        return bool(body["error"].get("data", {}).get("code"))
    meta = body.get("result", {}).get("_meta", {})
    return bool(meta.get("wicket/error", {}).get("code") or meta.get("wicket/script", {}).get("kind"))
