"""What replicas stand on is wrong: a clock, or the database's disk. A clear word, no hang, and no call is lost."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests import needs
from tests.cluster.house import replicas
from tests.cluster.test_ownership import call, pid
from tests.cluster.test_replicas import HELLO, Legacy, readiness
from tests.conftest import peer
from tests.peers.postgres import Postgres


async def test_clocks_that_are_five_minutes_apart_part_nobody_and_are_named(postgres: Postgres, tmp_path: Path) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip(needs.FAKETIME)
    servers = {"x": peer("Echo")}
    async with replicas(tmp_path, postgres.database(), servers, count=2) as house, aiohttp.ClientSession() as http:
        right, wrong = house.replicas
        await wrong.stop()
        # Not by the command `faketime`, which is a process of its own and ends alone.
        wrong.variables = {"LD_PRELOAD": str(library), "FAKETIME": "+5m", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        await wrong.start()
        assert "clock differs from the database's by -300 s" in wrong.log or "by -299 s" in wrong.log
        assert len({await pid(http, replica) for replica in house.replicas}) == 1
        for first, second in ((right, wrong), (wrong, right)):
            client = Legacy(http)
            await client.ask(first, "initialize", HELLO)
            assert await client.echo(second, "at the other one") == "at the other one"
            await first.stop()
            assert await client.echo(second, "taken up") == "taken up"
            await first.start()


@contextmanager
def small_disk(size: str) -> Generator[Path]:
    """A folder on a disk of its own."""
    if os.geteuid() != 0:
        pytest.skip(needs.MOUNTS)
    folder = Path(tempfile.mkdtemp(prefix="wicket-disk-"))
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        folder.rmdir()
        pytest.skip(needs.MOUNTS)
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)
        folder.rmdir()


def fill(folder: Path) -> Path:
    """Leave no room on the disk of a folder."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:  # a buffer would be written at the end, where there is no room either
        try:
            while True:
                file.write(b"\0" * 65536)
        except OSError:
            return path


async def test_a_full_disk_under_the_database_costs_no_call_and_is_named(tmp_path: Path) -> None:
    with small_disk("200m") as disk:
        data = disk / "postgres"
        data.mkdir()
        with Postgres(data=data) as server:
            servers = {"x": peer("Echo")}
            async with replicas(tmp_path, server.database(), servers, count=2) as house:
                async with aiohttp.ClientSession() as http:
                    for replica in house.replicas:
                        assert (await call(http, replica, "echo", message="a"))["content"][0]["text"] == "a"
                    filler = fill(disk)
                    async with asyncio.timeout(60):
                        while "No space left" not in await readiness(http, house.replicas[0]):
                            for replica in house.replicas:
                                result = await call(http, replica, "echo", message="b" * 1000)
                                assert result["content"][0]["text"] == "b" * 1000
                    filler.unlink()
                    async with asyncio.timeout(60):
                        for replica in house.replicas:
                            while "No space left" in await readiness(http, replica):
                                await call(http, replica, "echo", message="c")
                            await replica.ready()
