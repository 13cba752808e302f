"""Whether anything grows: `python bench/soak.py [MINUTES]`, one minute unless told.

One gateway in this process calls, searches with new words, stores large results, has servers crash, cancels, and lets
sessions come and go. After a warm-up of a quarter of the time, and at the end when all is at rest, it prints memory,
tasks, descriptors and threads; it fails when tasks, descriptors or threads are more than they were.
"""

import asyncio
import os
import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wicket_mcp import Gateway
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL, Silent
from wicket_mcp.request import tool_call

PEER = Path(__file__).parent / "peers" / "bad_server.py"
WORKERS = 8


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


async def work(gateway: Gateway, until: float) -> int:
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
            elif kind < 0.95:
                async with asyncio.timeout(0.01):
                    await gateway.call("good1.slow")
            else:
                await gateway.call("crashes.slow")
    return done


async def main(minutes: float) -> int:
    server = {"command": sys.executable}
    servers = {f"good{number}": {**server, "args": [str(PEER), "Echo"]} for number in range(3)}
    servers["crashes"] = {**server, "args": [str(PEER), "DiesMidCall"]}
    with tempfile.TemporaryDirectory() as state:
        async with Gateway.open({"servers": servers, "state_dir": state}) as gateway:
            await gateway.tools()
            standings: list[Standing] = []
            for share in (0.25, 0.75):
                until = time.monotonic() + 60 * minutes * share
                done = sum(await asyncio.gather(*(work(gateway, until) for _ in range(WORKERS))))
                await asyncio.sleep(3)
                await asyncio.gather(
                    *(gateway.call(f"good{number}.echo", {"message": "at rest"}) for number in range(3))
                )
                standings.append(Standing.now())
                print(f"{done} operations: {standings[-1]}", flush=True)
    first, last = standings
    grown = [name for name in ("tasks", "descriptors", "threads") if getattr(last, name) > getattr(first, name) + 2]
    verdict = f"grown: {', '.join(grown)}" if grown else "nothing else grew"
    print(f"memory {first.rss_mib:.1f} -> {last.rss_mib:.1f} MiB; {verdict}")
    return 1 if grown else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)))
