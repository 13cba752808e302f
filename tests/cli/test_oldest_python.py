"""The oldest patch release that a machine brings along: what asyncio gained within 3.11 is not there yet.

Debian's own Python is 3.11.2 where our tests run on a newer one. It reads the same packages, so nothing is installed. A
machine without such a Python runs this with its own.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.conftest import ROOT, peer
from tests.gateway.serving import TOKEN, raw_client, toml_of
from wicket_mcp.codec import encode


def _oldest() -> str:
    """The system's Python where it is another patch release of ours, else ours."""
    system = "/usr/bin/python3"
    if not Path(system).exists():
        return sys.executable
    asked = (system, "-c", "import sys; print(sys.version_info[:2] + (sys.implementation.cache_tag,))")
    said = subprocess.run(asked, capture_output=True, check=False, timeout=30).stdout.decode().strip()
    ours = (*sys.version_info[:2], sys.implementation.cache_tag)
    return system if said == str(ours) else sys.executable


PYTHON = _oldest()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    packages = [str(ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        "WICKET_NO_DAEMON": "1",
        "WICKET_TOKEN": TOKEN,
    }


@pytest.fixture
def config(tmp_path: Path) -> Path:
    server = peer("Echo") | {"command": PYTHON}
    file = tmp_path / "wicket.toml"
    file.write_text(toml_of({"first": server, "second": server}))
    return file


def test_the_command_line_searches_calls_and_runs(config: Path, environment: dict[str, str]) -> None:
    for arguments, said in (
        (("search", "echo a message"), "first.echo"),
        (("call", "first.echo", "message=hello"), "hello"),
        (("servers",), "second"),
        (("status",), "wicket.toml"),
    ):
        command = [PYTHON, "-m", "wicket_mcp", *arguments, "--config", str(config)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        assert said in done.stdout.decode()
        assert "Traceback" not in done.stderr.decode()


async def test_it_serves_over_stdio(config: Path, environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ["-m", "wicket_mcp", "serve", "--config", str(config)]
    log = tmp_path / "log"
    with log.open("w") as written:
        parameters = StdioServerParameters(command=PYTHON, args=arguments, env=environment)
        async with Client(stdio_client(parameters, errlog=written)) as client:
            found = await client.call_tool("find_tools", {"query": "echo a message"})
            assert "first.echo" in str(found.content)
            called = await client.call_tool("call_tool", {"name": "first.echo", "arguments": {"message": "hello"}})
            assert "hello" in str(called.content)
    assert "Traceback" not in log.read_text()


@asynccontextmanager
async def serving(config: Path, environment: dict[str, str]) -> AsyncGenerator[tuple[str, asyncio.StreamReader]]:
    """The address of a gateway over HTTP, and what else it says."""
    process = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0", "--config", str(config)),
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        while (address := re.search(rb"http://\S+/mcp", line := await process.stderr.readline())) is None:
            assert line, "it ended"
        yield address[0].decode(), process.stderr
    finally:
        process.terminate()
        await process.wait()


async def test_it_serves_over_http(config: Path, environment: dict[str, str]) -> None:
    async with serving(config, environment) as (address, said), raw_client(address) as client:
        arguments = {"name": "first.echo", "arguments": {"message": "hello"}}
        _, body = await client.modern("tools/call", {"name": "call_tool", "arguments": arguments})
        assert "hello" in encode(body).decode()
    assert b"Traceback" not in await said.read()
