"""All that clients do at once, in front of replicas: calls of both eras, scripts, large results that are read later.

`Mixed` is a `Load` whose clients take turns at these; `upstreams` are the servers that it needs, half of them commands.
Every call carries a message that its server counts, so that the account knows what ran, and how often.
"""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cluster.house import Replica
from tests.cluster.load import Load, counting_child
from tests.conftest import Server
from tests.peers.counting_servers import CountingServer

ROWS = 2000
_OWNED = re.compile(r"this replica runs server '(.+?)' from now on \(epoch (\d+)\)")


class Upstreams:
    """Servers that count: as many over HTTP as commands."""

    def __init__(self, folder: Path, remotes: list[CountingServer], commands: int) -> None:
        self._remotes = remotes
        self._counted = [folder / f"counted-{number}" for number in range(commands)]
        self.servers: dict[str, Server] = {f"web{n}": {"url": remote.url} for n, remote in enumerate(remotes)}
        self.servers |= {f"cmd{n}": counting_child(path) for n, path in enumerate(self._counted)}

    @property
    def executed(self) -> list[str]:
        """The messages that ran; `twice` for a command that was started while it ran elsewhere."""
        written = [line for path in self._counted for line in path.read_text().split()]
        return [message for remote in self._remotes for message in remote.executed] + written


@asynccontextmanager
async def upstreams(folder: Path, each: int, host: str = "127.0.0.1") -> AsyncGenerator[Upstreams]:
    async with AsyncExitStack() as stack:
        remotes = [await stack.enter_async_context(CountingServer(host)) for _ in range(each)]
        yield Upstreams(folder, remotes, each)


class Mixed(Load):
    """Of eight turns of a client one is a script, one a large result; the others are calls."""

    async def _use(self, number: int, message: str, session: dict[str, str]) -> Any:
        """The answer to one turn if it is wrong; None if it is right."""
        server = self._tools[number % len(self._tools)]
        if number % 8 == 3:
            code = f'return {server}.echo({{message = "{message}"}}):await()'
            return await self._expect("run_script", {"code": code, "language": "lua"}, message, session)
        if number % 8 == 6:
            commands = [name for name in self._tools if name.startswith("cmd")]
            return await self._read_large(commands[number % len(commands)], message, session)
        arguments = {"name": f"{server}.echo", "arguments": {"message": message}}
        return await self._expect("call_tool", arguments, message, session)

    async def _read_large(self, server: str, message: str, session: dict[str, str]) -> Any:
        """A large result, and a part of it that any replica must have."""
        arguments = {"name": f"{server}.big", "arguments": {"rows": ROWS, "message": message}}
        status, body = await self._call({"name": "call_tool", "arguments": arguments}, session)
        if status != 200 or "error" in body or body["result"].get("isError"):
            return body
        handle = body["result"]["_meta"]["wicket/result"]["id"]
        part = {"id": handle, "path": f"items[{ROWS - 1}].name"}
        return await self._expect("read_result", part, f"row {ROWS - 1}", session)

    async def _expect(self, tool: str, arguments: dict[str, Any], text: str, session: dict[str, str]) -> Any:
        status, body = await self._call({"name": tool, "arguments": arguments}, session)
        is_right = status == 200 and "error" not in body and not body["result"].get("isError")
        return None if is_right and text in json.dumps(body["result"]) else body


def owned_twice(replicas: list[Replica]) -> list[tuple[str, str]]:
    """The servers and epochs that more than one owner began."""
    begun = [owned for replica in replicas for owned in _OWNED.findall(replica.log)]
    return [owned for owned in {*begun} if begun.count(owned) > 1]
