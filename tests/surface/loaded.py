"""A gateway served over HTTP in a process of its own: which modules it loads, and when."""

import subprocess
import sys
import tempfile

PROGRAM = """
import asyncio, sys
from wicket_mcp import Gateway

async def main():
    async with Gateway.open({"servers": {}, "state_dir": sys.argv[1], "http": {"port": 0}}) as gateway:
        stop, ready = asyncio.Event(), asyncio.Event()
        async def end():
            await ready.wait()
            print(*sys.modules)
            while len(sys.argv) > 2 and sys.argv[2] not in sys.modules:
                await asyncio.to_thread(int)
            stop.set()
        ending = gateway.tasks.start(end(), "end")
        await gateway.serve_http(stop, token="a-token-for-this", on_ready=lambda address: ready.set())

asyncio.run(main())
print(*sys.modules)
"""


def modules_of_a_served_gateway(until: str = "") -> tuple[set[str], set[str]]:
    """What is loaded when it is ready, and when it ends: at once, or when the module `until` is loaded."""
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-c", PROGRAM, state, *filter(None, [until])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    ready, ended = done.stdout.splitlines()
    return set(ready.split()), set(ended.split())
