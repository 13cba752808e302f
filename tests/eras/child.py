"""Child processes that serve until a block ends."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from tests.conftest import ROOT
from wicket_mcp.tasks import Tasks

ADDRESS = r"https?://[\w.:\[\]-]+/mcp"


@asynccontextmanager
async def serving(
    command: Sequence[str], environment: Mapping[str, str] | None = None, until: str = ADDRESS
) -> AsyncGenerator[str]:
    """Runs `command`; gives what `until` matches in the first thing of the kind that it prints, usually its address."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    tasks = Tasks()
    try:
        said = ""
        while not (found := re.search(until, said)):
            line = await process.stdout.readline()
            assert line, f"{' '.join(command[:4])} ended before it served:\n{said}"
            said += line.decode(errors="replace")
        tasks.start(_drain(process.stdout), "read what a child says")
        yield found.group()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await tasks.close()


async def _drain(stream: asyncio.StreamReader) -> None:
    """Read what a child says, so that it never waits for a reader; shown by pytest when a test fails."""
    while line := await stream.readline():
        os.write(2, line)
