"""Starts a server on the SDK and says where it can be reached."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from wicket_mcp.codec import decode


@contextmanager
def sdk_addresses(script: str = "sdk_server.py") -> Generator[dict[str, str]]:
    """The addresses of a running SDK server: `events`, `json` and `sse` of `sdk_server.py`."""
    command = [sys.executable, str(Path(__file__).with_name(script))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield decode(process.stdout.readline())
        process.stdin.close()
        process.wait(10)
