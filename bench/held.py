"""How long one thing holds the event loop at most: `python bench/held.py [ROUNDS]`, five unless told.

One request, one message of a server, one script, one schema or one list at a time, at a gateway that does nothing else
(`peers/watched_gateway.py`); and attacks: text that may take a square of its length to read. Printed for each: how late
the loop was at most, threads that held the interpreter included; how much of such a wait the gateway was at work, which
a busy machine does not change; and the processor time of its longest callback; each the median of the rounds, and the
worst. Exit status 1 where a median of the lateness is above `MOST`: run it on a quiet machine.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clients import BenchError, HttpClient, Program
from machine import children, free_port
from wicket_mcp.model import JsonObject

HERE = Path(__file__).parent
MOST = 0.05
QUICK = 8
"""Servers that are only started."""
QUICK_TOOLS = tuple(f"quick{number}.echo" for number in range(QUICK))
HEAVY = ("Results", "Schemas", "Many", "Hostile")
KIB, MIB = 1024, 1024 * 1024

Case: TypeAlias = Callable[["Watched"], Awaitable[Any]]


class Watched:
    """A gateway, a client of it, and what its loop reports."""

    def __init__(self, folder: Path, more: str = "") -> None:
        port = free_port()
        self._report = folder / "report"
        self._report.touch()
        serve = ("serve", "--config", str(_configuration(folder, more)), "--http", f"127.0.0.1:{port}", "--no-auth")
        command = (sys.executable, str(HERE / "peers" / "watched_gateway.py"), str(self._report), *serve)
        self.program = Program(command, folder / "wicket.log")
        self._client = HttpClient(port, modern=True)
        self._flat = HttpClient(port, "/mcp/flat", modern=True)
        self._port = port
        self._started = 0
        self.stored = ""
        """The handle of a large result."""

    async def start(self) -> None:
        await self.program.start()
        for client in (self._client, self._flat):
            await client.start()

    async def own(self, tool: str, **arguments: Any) -> JsonObject:
        """One of Wicket's own tools."""
        return await self._client.request("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, **arguments: Any) -> JsonObject:
        return await self.own("call_tool", name=tool, arguments=arguments)

    async def send_raw(self, head: bytes) -> bytes:
        """A request as these bytes say it; the first line of its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(head)
        line = await reader.readline()
        writer.close()
        return line

    async def read_resource(self, uri: str) -> JsonObject:
        return await self._client.request("resources/read", {"uri": uri})

    async def list_flat(self) -> JsonObject:
        return await self._flat.request("tools/list", {})

    async def start_one(self) -> None:
        """A server that does not run yet."""
        self._started += 1
        await self.call(f"quick{self._started % QUICK}.echo")

    async def stop_one(self) -> None:
        """So that it can be started again."""
        for pid in children(self.program.pid, "Quick"):
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(1.0)

    async def read(self, seconds: float = 0.3) -> dict[str, Any]:
        """The worst since the last time; what was begun has a moment to end."""
        await asyncio.sleep(seconds)
        lines = self._report.read_text().count("\n")
        os.kill(self.program.pid, signal.SIGUSR1)
        while (text := self._report.read_text()).count("\n") == lines:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return json.loads(text.splitlines()[-1])


def _configuration(folder: Path, more: str) -> Path:
    program = str(HERE / "peers" / "heavy_server.py")
    kinds = {kind.lower(): kind for kind in HEAVY} | {f"quick{number}": "Quick" for number in range(QUICK)}
    command = f"command = {json.dumps(sys.executable)}\nadded = 'hold'"
    tables = [f"[servers.{name}]\n{command}\nargs = {json.dumps([program, kind])}\n" for name, kind in kinds.items()]
    path = folder / "wicket.toml"
    path.write_text(f'state_dir = "{folder / "state"}"\n' + "\n".join(tables) + more)
    return path


def _text(count: int) -> Case:
    return lambda watched: watched.call("results.text", count=count)


def _argument(count: int) -> Case:
    return lambda watched: watched.call("results.echo", value="x" * count)


def _schema(name: str, value: Any) -> Case:
    return lambda watched: watched.call(f"schemas.{name}", value=value)


async def _store(watched: Watched) -> None:
    result = await watched.call("results.values", count=40_000)
    watched.stored = str(result).partition('id="')[2].partition('"')[0]


CASES: dict[str, Case] = {
    "a result of 256 KiB": _text(256 * KIB),
    "a result of 1 MiB": _text(MIB),
    "a result of 4 MiB": _text(4 * MIB),
    "a result of 15 MiB": _text(15 * MIB),
    "a result of 100,000 blocks": lambda watched: watched.call("results.blocks", count=100_000),
    "a result of 40,000 rows": _store,
    "reading on in it": lambda watched: watched.own("read_result", id=watched.stored, grep="row 39.*9", limit=50),
    "arguments of 255 KiB": _argument(255 * KIB),
    "arguments of 1 MiB": _argument(MIB),
    "arguments of 3.9 MiB": _argument(int(3.9 * MIB)),
    "arguments of 190,000 values": lambda watched: watched.call("results.echo", value=list(range(190_000))),
    "a schema of 10,000 properties": lambda watched: watched.call(
        "schemas.many_properties", **{f"property{number}": number for number in range(10_000)}
    ),
    "a schema of 20,000 values": _schema("many_values", "value 19999"),
    "a schema of 2,000 ways": _schema("many_ways", {f"p{number}": "a" * 30 for number in range(2_000)}),
    "a schema that doubles 30 times": _schema("doubling", list(range(200))),
    "a schema in circles": _schema("circles", list(range(4_000))),
    "4,000 objects that must differ": _schema("unique", [{"a": [number]} for number in range(4_000)]),
    "a pattern that backtracks": _schema("backtracking", "a" * 100_000 + "b"),
    "describing such tools": lambda watched: watched.own(
        "describe_tools", names=[f"schemas.{name}" for name in ("many_properties", "many_values", "many_ways")]
    ),
    "a search of 2,000 characters": lambda watched: watched.own("find_tools", query="thing of records " * 117),
    "the list of 5,000 tools": lambda watched: watched.list_flat(),
    "a script of 100 KiB": lambda watched: watched.own("run_script", code="local x = 1\n" * 8_500 + "return x"),
    "a script that never ends": lambda watched: watched.own("run_script", code="while true do end"),
    "a script that returns 4 MiB": lambda watched: watched.own("run_script", code='return string.rep("x", 4000000)'),
    "starting a server": lambda watched: watched.start_one(),
}


def _page(sign: str, count: int, **arguments: str) -> Case:
    """A page of one character, and a call with an effect while it is remembered."""

    async def attack(watched: Watched) -> None:
        await watched.call("hostile.read_page", sign=sign, count=count)
        await watched.call("hostile.send_mail", **arguments or {"to": "bob@example.com"})

    return attack


async def _template(watched: Watched) -> None:
    await watched.call("hostile.add_template")
    await watched.read_resource("mcp://hostile/doc://" + "a" * 40)


def _headers(path: str, name: str, value: str, times: int = 1) -> Case:
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + f"{name}: {value}\r\n" * times + "\r\n"
    return lambda watched: watched.send_raw(head.encode())


async def _broken_text(watched: Watched) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "x": ' + b'\\"' * 1_000_000
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    await watched.send_raw(head.encode() + b"\r\n\r\n" + body)


ATTACKS: dict[str, Case] = {
    "a page of 1,000,000 underscores": _page("_", 1_000_000),
    "a page of 500,000 newlines": _page("\n", 500_000),
    "a page of 500,000 pairs": _page("a.", 500_000),
    "an argument of 400,000 pairs": _page("plain words. ", 100, to="a." * 400_000),
    "a page of 1,000,000 accents": _page("\u0301", 1_000_000),
    "a page of 60,000 signs that stand for many": _page("\ufdfa", 60_000),
    "a page of 350,000 hexadecimal pairs": _page("ab ", 350_000),
    "a page of 1 MiB of base64": _page("QUFB", 262_144),
    "a page of 500,000 digits": _page("1 ", 500_000, id="1"),
    "a page of 1 MiB of words": _page("plain words of a page, 12345678. ", 31_000),
    "an argument of 100,000 numbers": _page("plain words. ", 100, to="a1234567 " * 100_000),
    "a template with 18 placeholders": _template,
    "a challenge of 30 lines of 8,000 letters": lambda watched: watched.call("challenging.any"),
    "a cookie of 60,000 backslashes": _headers("/ui", "Cookie", 'a="' + "\\1" * 30_000 + '"'),
    "2,000 cookies": _headers("/ui", "Cookie", "a=b; " * 2_000),
    "an Accept of 30,000 commas": _headers("/mcp", "Accept", "," * 30_000),
    "an Authorization of 60,000 letters": _headers("/mcp", "Authorization", "Bearer " + "a." * 30_000),
    "two million quotes": _broken_text,
    "describing 160,000 characters of markup": lambda watched: watched.own("describe_tools", names=["hostile.marked"]),
    "a query of 100,000 blanks": lambda watched: watched.own("find_tools", query="a" + " " * 100_000 + "b"),
}
"""What a server, a page, a client or a browser may send; with `flow` on."""


class Challenging:
    """A remote server that answers everything with a very long challenge."""

    def __init__(self) -> None:
        lines = f"WWW-Authenticate: Bearer {'_' * 8_000}\r\n" * 30
        self._answer = f"HTTP/1.1 401 Unauthorized\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Its address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(self._answer)
        writer.close()


def _say(title: str, worst: Sequence[dict[str, Any]]) -> str:
    late = [turn["late"] * 1000 for turn in worst]
    own = [turn["own"] * 1000 for turn in worst]
    longest = sorted((turn["longest"] * 1000, str(turn["callback"])[:60]) for turn in worst)
    return (
        f"{title}: late {statistics.median(late):.0f} ms (worst {max(late):.0f}), "
        f"by its own work {statistics.median(own):.0f} ms (worst {max(own):.0f}), "
        f"longest callback {longest[len(longest) // 2][0]:.1f} ms (worst {longest[-1][0]:.1f}: {longest[-1][1]})"
    )


LISTING, OTHERS, INDEXING = "listing 100,000 tools", "listing ten more servers", "the first search among them"


async def list_and_index(worst: dict[str, list[dict[str, Any]]]) -> None:
    """What happens once in the life of a gateway."""
    with tempfile.TemporaryDirectory() as name:
        watched = Watched(Path(name))
        try:
            await watched.start()
            await watched.read(1.0)
            await watched.own("describe_tools", names=["many.tool_1"])
            worst[LISTING].append(await watched.read(1.0))
            await watched.own("describe_tools", names=["results.text", "schemas.circles", *QUICK_TOOLS])
            worst[OTHERS].append(await watched.read(1.0))
            await watched.own("find_tools", query="a tool")
            worst[INDEXING].append(await watched.read(15.0))  # until the encoder has read them
        finally:
            await watched.program.stop()


async def measure_cases(rounds: int, worst: dict[str, list[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        watched = Watched(Path(name))
        try:
            await watched.start()
            await watched.own("find_tools", query="a tool")
            await watched.read(15.0)
            for _ in range(rounds):
                await watched.stop_one()
                await watched.read()
                for title, case in CASES.items():
                    try:
                        await case(watched)
                    except BenchError as problem:
                        print(f"{title}: {str(problem)[:200]}")
                    worst[title].append(await watched.read())
        finally:
            await watched.program.stop()


async def measure_attacks(rounds: int, worst: dict[str, list[dict[str, Any]]]) -> None:
    """A fresh gateway for each round, with information flow on."""
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            challenging = Challenging()
            remote = f'[servers.challenging]\nurl = "{await challenging.start()}"\n[policy]\nflow = "deny"\n'
            watched = Watched(Path(name), remote)
            try:
                await watched.start()
                await watched.own("find_tools", query="a tool")
                await watched.read(15.0)
                for title, attack in ATTACKS.items():
                    try:
                        await attack(watched)
                    except BenchError as problem:  # refused, as it should be
                        print(f"{title}: {str(problem)[:100]}")
                    worst[title].append(await watched.read())
            finally:
                await watched.program.stop()
                await challenging.stop()


async def main(rounds: int = 5) -> int:
    worst: dict[str, list[dict[str, Any]]] = {title: [] for title in (LISTING, OTHERS, INDEXING, *CASES, *ATTACKS)}
    for _ in range(rounds):
        await list_and_index(worst)
    await measure_cases(rounds, worst)
    await measure_attacks(rounds, worst)
    for title, turns in worst.items():
        print(_say(title, turns))
    return int(any(statistics.median(turn["late"] for turn in turns) > MOST for turns in worst.values()))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*map(int, sys.argv[1:]))))
