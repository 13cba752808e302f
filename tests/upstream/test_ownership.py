"""One owner for each server: processes that claim the same key over file locks."""

import asyncio
import contextlib
import fcntl
import resource
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from wicket_mcp.cluster.pulse import answers
from wicket_mcp.codec import encode
from wicket_mcp.upstream.ownership import Claim, FileOwnership

OWNER = """
import asyncio, sys
from pathlib import Path
from wicket_mcp.cluster.pulse import answers
from wicket_mcp.codec import encode
from wicket_mcp.upstream.ownership import FileOwnership

async def main():
    ownership = FileOwnership(Path(sys.argv[1]), "unix:/first", answers)
    claim = await ownership.claim("files", lambda: None)
    print(claim.epoch, claim.ours, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def ignore() -> None:
    """A file lock is never lost."""


@contextlib.asynccontextmanager
async def other_owner(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Another process, which owns `files`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(folder), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"1 True\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_who_comes_second_learns_who_owns_it_and_takes_over_when_the_owner_dies(tmp_path: Path) -> None:
    ownership = FileOwnership(tmp_path, "unix:/second", answers)
    async with other_owner(tmp_path) as process:
        assert await ownership.claim("files", ignore) == Claim(1, "unix:/first")
        assert ownership.epoch("files") == 0
        assert (await ownership.claim("another", ignore)).ours
        process.kill()
        await process.wait()
        taken = await ownership.claim("files", ignore)
    assert taken.ours
    assert taken.epoch == ownership.epoch("files") == 2
    await ownership.close()


async def test_what_is_released_goes_to_the_next_with_a_higher_epoch(tmp_path: Path) -> None:
    first, second = FileOwnership(tmp_path, "unix:/first", answers), FileOwnership(tmp_path, "unix:/second", answers)
    assert await first.claim("files", ignore) == Claim(1)
    assert await first.claim("files", ignore) == Claim(1)  # ours already
    assert await second.claim("files", ignore) == Claim(1, "unix:/first")
    await first.release("files", 1)
    assert await second.claim("files", ignore) == Claim(2)
    assert first.epoch("files") == 0
    await second.close()


async def test_an_owner_that_has_not_written_its_address_yet_is_waited_for(tmp_path: Path) -> None:
    owning = FileOwnership(tmp_path, "unix:/first", answers)
    await owning.claim("files", ignore)
    await owning.close()
    (path,) = tmp_path.glob("*.owner")
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = FileOwnership(tmp_path, "unix:/second", answers)
        for written in (b"", encode({"epoch": 1, "address": ""})):
            path.write_bytes(written)
            claiming = asyncio.ensure_future(second.claim("files", ignore))
            await asyncio.sleep(0)
            assert not claiming.done()
            path.write_bytes(encode({"epoch": 7, "address": "unix:/other"}))
            assert await claiming == Claim(7, "unix:/other")


async def test_a_claim_that_cannot_be_written_is_nobodys(tmp_path: Path) -> None:
    first, second = (FileOwnership(tmp_path, address, answers) for address in ("unix:/first", "unix:/second"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            await first.claim("files", ignore)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (await second.claim("files", ignore)).ours
    await second.close()


async def test_an_owner_that_stands_still_is_killed_and_one_that_answers_is_not(tmp_path: Path) -> None:
    """Defect 5, for the workers of a machine: the kernel keeps the lock of a process that is stopped."""
    is_alive = [True]

    async def says(address: str) -> bool:
        return is_alive[0]

    ownership = FileOwnership(tmp_path, "unix:/second", says)
    async with other_owner(tmp_path) as process:
        claim = await ownership.claim("files", ignore)
        assert not await ownership.doubt("files", claim)
        is_alive[0] = False
        assert not await ownership.doubt("files", Claim(1, "unix:/another"))
        assert process.returncode is None
        process.send_signal(signal.SIGSTOP)
        assert await ownership.doubt("files", claim)
        assert await process.wait() == -signal.SIGKILL
        assert await ownership.claim("files", ignore) == Claim(2)
    await ownership.close()
