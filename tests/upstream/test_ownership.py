"""One owner for each server: processes that claim the same key over file locks."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from wicket_mcp.cluster.pulse import answers
from wicket_mcp.upstream.ownership import Claim, FileOwnership

OWNER = """
import asyncio, sys
from pathlib import Path
from wicket_mcp.cluster.pulse import answers
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
