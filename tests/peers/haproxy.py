"""A real HAProxy from Debian's packages before some addresses, without stickiness: every request may go anywhere.

Its configuration is `deploy/haproxy.cfg` with other addresses, quicker to notice that a replica is gone, and slower to
take one that is busy, on a machine that others use too, for one that stands still.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import needs
from tests.conftest import ROOT
from tests.peers.ports import free_port


def configuration(port: int, addresses: Sequence[str], check: str) -> str:
    text = (ROOT / "deploy" / "haproxy.cfg").read_text()
    changes = {
        "bind :8377": f"bind 127.0.0.1:{port}",
        "abns@wicket-inner": f"abns@wicket-inner-{port}",
        "balance leastconn": "balance roundrobin",
        "inter 1s fall 2": "inter 200ms fall 1",
        "timeout check 3s": f"timeout check {check}",
    }
    for deployed, ours in changes.items():
        assert deployed in text
        text = text.replace(deployed, ours)
    servers = "".join(f"  server r{number} {each}\n" for number, each in enumerate(addresses))
    return text.partition("  server wicket-1")[0] + servers


@asynccontextmanager
async def haproxy(folder: Path, addresses: Sequence[str], check: str = "20s") -> AsyncGenerator[str]:
    """The address that stands for all of these (`host:port`), each of which must answer a check within `check`."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip(needs.HAPROXY)
    port = free_port()
    file = folder / "haproxy.cfg"
    file.write_text(configuration(port, addresses, check))
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
