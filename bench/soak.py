"""Whether anything grows: `python bench/soak.py [MINUTES]`, one minute unless told.

One gateway in this process calls, searches with new words, stores large results, has servers crash and change what they
offer, cancels, and lets clients come and go that never say goodbye: over HTTP, and to a server with a process for each.
After each quarter of the time, when all is at rest, it prints memory, tasks, descriptors and threads, and how often a
list has changed; it fails when tasks, descriptors or threads at the end are more than after the first quarter, or
memory grew by more than a tenth and 32 MiB.
"""

import asyncio
import gc
import os
import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients import HELLO
from machine import free_port
from peers.http_hop import Hop
from wicket_mcp import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, Silent
from wicket_mcp.request import tool_call

PEER = Path(__file__).parent / "peers" / "bad_server.py"
WORKERS = 8
QUARTERS = 4
REST = 5.0  # seconds in which what is idle is let go


@dataclass(frozen=True)
class Standing:
    """What the process holds at one moment."""

    rss_mib: float
    tasks: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> "Standing":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(asyncio.all_tasks()), descriptors, threading.active_count()
        )


async def greet(hop: Hop) -> None:
    """A legacy client that opens a session and is never seen again."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    hello = encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    reply = await hop.post("/mcp", headers, hello)
    if reply.status != 200:
        raise SystemExit(f"a session was refused: {reply.status} {reply.body[:200]!r}")


async def work(gateway: Gateway, hop: Hop, until: float) -> int:
    """Everything that a client does, in random order."""
    done = 0
    while time.monotonic() < until:
        done += 1
        kind = random.random()
        with suppress(WicketError, TimeoutError):
            if kind < 0.6:
                await gateway.call(f"good{random.randrange(3)}.echo", {"message": "hello"})
            elif kind < 0.8:
                await gateway.search(" ".join(f"word{random.randrange(10**9)}" for _ in range(5)))
            elif kind < 0.9:
                big = tool_call(
                    "good0.echo", {"message": "x" * 200_000}, Silent(LOCAL, session=f"s{random.randrange(10**9)}")
                )
                await gateway.verbs.call(big)
            elif kind < 0.92:
                await greet(hop)
            elif kind < 0.93:
                await gateway.call("changes.slow")
            elif kind < 0.935:
                one = Silent(LOCAL, session=f"own{random.randrange(50)}")
                await gateway.verbs.call(tool_call("own.echo", {"message": "hello"}, one))
            elif kind < 0.96:
                async with asyncio.timeout(0.01):
                    await gateway.call("good1.slow")
            else:
                await gateway.call("crashes.slow")
    return done


async def main(minutes: float) -> int:
    server = {"command": sys.executable}
    servers: dict[str, dict[str, Any]] = {
        f"good{number}": {**server, "args": [str(PEER), "Echo"]} for number in range(3)
    }
    servers["crashes"] = {**server, "args": [str(PEER), "DiesMidCall"]}
    servers["changes"] = {**server, "args": [str(PEER), "Changes"], "changed": "accept"}
    servers["own"] = {**server, "args": [str(PEER), "Echo"], "isolation": "session", "idle_stop": 1}
    port = free_port()
    with tempfile.TemporaryDirectory() as state:
        configuration = {"servers": servers, "state_dir": state, "http": {"port": port}}
        async with Gateway.open(configuration) as gateway:
            await gateway.tools()
            stop, ready = asyncio.Event(), asyncio.Event()
            serving = asyncio.ensure_future(gateway.serve_http(stop, token=None, on_ready=lambda address: ready.set()))
            await ready.wait()
            standings = [await stand(gateway, port, 60 * minutes / QUARTERS) for _ in range(QUARTERS)]
            stop.set()
            await serving
    return judge(standings[0], standings[-1])


async def stand(gateway: Gateway, port: int, seconds: float) -> Standing:
    """What the process holds after so many more seconds of work, and some of rest."""
    hop = Hop("127.0.0.1", port)
    until = time.monotonic() + seconds
    done = sum(await asyncio.gather(*(work(gateway, hop, until) for _ in range(WORKERS))))
    hop.close()
    await asyncio.sleep(REST)
    await asyncio.gather(*(gateway.call(f"good{number}.echo", {"message": "at rest"}) for number in range(3)))
    gc.collect()
    standing = Standing.now()
    print(f"{time.strftime('%H:%M')} {done} operations, {gateway.catalogue.now.version} lists: {standing}", flush=True)
    return standing


def judge(first: Standing, last: Standing) -> int:
    grown = [name for name in ("tasks", "descriptors", "threads") if getattr(last, name) > getattr(first, name) + 4]
    if last.rss_mib > 1.1 * first.rss_mib + 32:
        grown.append("memory")
    verdict = f"grown: {', '.join(grown)}" if grown else "nothing grew"
    print(f"memory {first.rss_mib:.1f} -> {last.rss_mib:.1f} MiB; {verdict}")
    return 1 if grown else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)))
