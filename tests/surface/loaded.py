"""A gateway served over HTTP and asked once, in a process of its own: which modules that loads."""

import subprocess
import sys
import tempfile

PROGRAM = """
import asyncio, sys
from wicket_mcp import Gateway

async def main():
    async with Gateway.open({"servers": {}, "state_dir": sys.argv[1], "http": {"port": 0}}) as gateway:
        stop = asyncio.Event()
        await gateway.serve_http(stop, token="a-token-for-this", on_ready=lambda address: stop.set())

asyncio.run(main())
sys.stdout.write(" ".join(sys.modules))
"""


def modules_of_a_served_gateway() -> set[str]:
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-c", PROGRAM, state]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())
