"""Starts `sdk_server.py` and says where it can be reached."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from wicket.codec import decode


@contextmanager
def sdk_addresses() -> Generator[dict[str, str]]:
    """The addresses of a running SDK server: `events`, `json` and `sse`."""
    command = [sys.executable, str(Path(__file__).with_name("sdk_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield decode(process.stdout.readline())
        process.stdin.close()
        process.wait(10)
