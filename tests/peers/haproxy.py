"""A real HAProxy from Debian's packages before some addresses, without stickiness: every request may go anywhere.

What it says itself when a replica is gone is taken from `deploy/haproxy.cfg`.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.peers.postgres import free_port

MISSING = "HAProxy is not installed: run scripts/system"
CONFIGURATION = """
global
  maxconn 4000
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout http-request 10s
  timeout http-keep-alive 30s
  retries 3
  option redispatch 1
  retry-on conn-failure
  option http-no-delay
{errors}
frontend all
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET /readyz
  http-check send hdr Host localhost
  default-server check inter 200ms fall 1 rise 1
"""


@asynccontextmanager
async def haproxy(folder: Path, addresses: Sequence[str]) -> AsyncGenerator[str]:
    """The address that stands for all of these (`host:port`)."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip(MISSING)
    port = free_port()
    servers = "".join(f"  server r{number} {each}\n" for number, each in enumerate(addresses))
    file = folder / "haproxy.cfg"
    deployed = (ROOT / "deploy" / "haproxy.cfg").read_text().splitlines()
    errors = "\n".join(line for line in deployed if line.startswith("  http-error "))
    file.write_text(CONFIGURATION.format(port=port, errors=errors) + servers)
    process = await asyncio.create_subprocess_exec(
        program, "-f", str(file), "-db", "-q", stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await reachable(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def reachable(port: int) -> None:
    """Return when somebody listens there."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
