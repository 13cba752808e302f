"""What the suite is pointed at: the reference server itself, or Wicket in front of it.

Each target is a child process (or two) for the length of a `with` block, and an address.
"""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.conformance.suite import ROOT
from wicket_mcp.codec import encode
from wicket_mcp.tasks import Tasks

Way: TypeAlias = Literal["direct", "http", "stdio"]
WAYS: tuple[Way, ...] = ("direct", "http", "stdio")

REFERENCE = ("-m", "tests.conformance.reference_server")
ADDRESS = re.compile(r"https?://[\w.:\[\]-]+/mcp")
TOP = "unprefixed = true"
"""One upstream, whose names and addresses the suite knows: they must pass as they are."""


@asynccontextmanager
async def target(way: Way, log: Path | None = None) -> AsyncGenerator[str]:
    """The address to measure; what the children say on stderr goes to the file `log`."""
    if way == "stdio":
        upstream = {"command": sys.executable, "args": [*REFERENCE, "--stdio"], "cwd": str(ROOT), "connect_timeout": 30}
        async with wicket(upstream, log) as address:
            yield address
        return
    async with _serving([*REFERENCE, "--http", "0"], log=log) as reference:
        if way == "direct":
            yield reference
            return
        async with wicket({"url": reference}, log) as address:
            yield address


@asynccontextmanager
async def wicket(upstream: Mapping[str, Any], log: Path | None = None) -> AsyncGenerator[str]:
    """Wicket over HTTP in the flat dialect, in front of one upstream."""
    with configured(upstream) as (config, state):
        async with serving(config, state, log) as address:
            yield address


@contextmanager
def configured(
    upstream: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]] | None = None
) -> Generator[tuple[str, dict[str, str]]]:
    """A configuration for one upstream, and the environment that keeps its state to itself."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "wicket.toml"
        lines = [TOP, "[servers.reference]", *_options(upstream)]
        for name, options in (tables or {}).items():
            lines += [f"[{name}]", *_options(options)]
        config.write_text("\n".join(lines))
        yield str(config), {"XDG_STATE_HOME": folder, "WICKET_LOG": os.environ.get("WICKET_LOG", "info")}


def _options(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {encode(value).decode()}" for name, value in values.items()]


@asynccontextmanager
async def serving(config: str, state: Mapping[str, str], log: Path | None = None) -> AsyncGenerator[str]:
    """Wicket over HTTP in the flat dialect, with this configuration."""
    command = ["-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0", "--no-auth", "--dialect", "flat"]
    async with _serving([*command, "--config", config], state, log) as address:
        yield address


@asynccontextmanager
async def _serving(
    arguments: list[str], environment: Mapping[str, str] | None = None, log: Path | None = None
) -> AsyncGenerator[str]:
    """A Python child that prints the address it serves, until the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    tasks = Tasks()
    try:
        said = ""
        while not (found := ADDRESS.search(said)):
            line = await process.stdout.readline()
            assert line, f"{' '.join(arguments[:4])} ended before it served:\n{said}"
            said += line.decode(errors="replace")
        tasks.start(_keep(process.stdout, log), "keep what a child says")
        yield found.group()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await tasks.close()


async def _keep(stream: asyncio.StreamReader, log: Path | None) -> None:
    """Read what a child says, so that it never waits for a reader; keep it where a log is wanted."""
    while line := await stream.readline():
        if log is not None:
            with log.open("ab") as file:
                file.write(line)
