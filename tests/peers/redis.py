"""A real Redis from Debian's packages, on a free port, that keeps nothing. Can be stopped and started again."""

import shutil
import socket
import subprocess
import time
from types import TracebackType

import pytest

from tests import needs
from tests.peers.ports import free_port


class RedisServer:
    """`with RedisServer() as server`."""

    def __init__(self, *options: str, host: str = "127.0.0.1") -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(needs.REDIS)
        self._host = host
        bound = ("--bind", *dict.fromkeys(("127.0.0.1", host)), "--protected-mode", "no")
        self._command = [program, "--save", "", "--appendonly", "no", *bound, *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"redis://{self._host}:{self.port}/0"

    def __enter__(self) -> "RedisServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError("Redis did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None
