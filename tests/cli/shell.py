"""The installed command, run the two ways people run it: in a pipe and on a terminal."""

import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode, encode
from wicket_mcp.config.read.folder_trust import digest

PATIENCE = 60.0


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return decode(self.out)


@dataclass(frozen=True)
class Shell:
    """A person with a home folder of their own."""

    home: Path
    cwd: Path
    variables: Mapping[str, str]
    trusting: bool = True
    """Whether they said yes to what lies in the folder they work in."""

    @classmethod
    def at(cls, home: Path, **variables: str) -> "Shell":
        cwd = home / "work"
        cwd.mkdir(parents=True, exist_ok=True)
        return cls(home, cwd, variables)

    @property
    def environ(self) -> dict[str, str]:
        """What a command is started with, in a folder whose configurations have had their yes."""
        self._accept()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        bare = {"HOME": str(self.home), "PATH": programs, "TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": "100"}
        return {**bare, "WICKET_NO_DAEMON": os.environ["WICKET_NO_DAEMON"], **self.variables}

    @property
    def config(self) -> Path:
        """Where the user's own wicket.toml goes."""
        return self.home / ".config" / "wicket" / "wicket.toml"

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Done:
        """`wicket ARGUMENTS` in a pipe."""
        done = subprocess.run(
            [sys.executable, "-m", "wicket_mcp", *arguments],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.cwd,
            env=self.environ | variables,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def follow(self, *arguments: str) -> Generator[Iterator[str]]:
        """The lines of `wicket ARGUMENTS` as they come through a pipe; the command is ended with the block."""
        command = [sys.executable, "-m", "wicket_mcp", *arguments]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, cwd=self.cwd, env=self.environ, text=True) as process:
            try:
                yield iter(process.stdout or ())
            finally:
                process.kill()

    def type(self, *arguments: str, answers: Sequence[tuple[str, str]] = (), columns: int = 100) -> Done:
        """`wicket ARGUMENTS` on a terminal; each answer is typed once its prompt is there."""
        with Terminal(self, arguments, columns) as terminal:
            for prompt, answer in answers:
                terminal.wait_for(prompt)
                terminal.send(answer)
            return terminal.finish()

    def _accept(self) -> None:
        """Say yes to the configurations in the working folder, as `wicket trust` would."""
        files = [file for name in ("wicket.toml", ".mcp.json") if (file := self.cwd / name).is_file()]
        if self.trusting and files:
            yes = {str(file.resolve()): {"sha256": digest(file), "at": 0} for file in files}
            self.write(".local/state/wicket/trusted.json", encode(yes).decode())

    def write(self, path: str, text: str) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def copy(self, source: Path, path: str) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, file)
        return file


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(
        self, shell: Shell, arguments: Sequence[str], columns: int, *, interrupts_ignored: bool = False
    ) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environ = {key: value for key, value in shell.environ.items() if key != "COLUMNS"}
        with _interrupts(ignored=interrupts_ignored):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "wicket_mcp", *arguments],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=shell.cwd,
                env=environ,
                start_new_session=True,
            )
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._master)

    def wait_for(self, text: str) -> None:
        """Read until `text` has been shown."""
        self._read(lambda: text in self.shown)
        assert text in self.shown, f"{text!r} never appeared; the terminal shows:\n{self.shown}"

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> Done:
        """Read to the end; what a terminal does to line ends is taken back."""
        self._read(lambda: False)
        return Done(self._process.wait(PATIENCE), self.shown.replace("\r\n", "\n"))

    def _read(self, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_enough() and time.monotonic() < deadline:
            ready, _, _ = select.select([self._master], [], [], 1.0)
            if not ready:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other side was closed: Linux's end of file for terminals
                return
            if not data:
                return
            self.shown += data.decode("utf-8", "replace")


@contextmanager
def _interrupts(*, ignored: bool) -> Generator[None]:
    """What a child started here does at SIGINT, however the tests themselves were started.

    A shell starts what runs in its background with SIGINT ignored, and children inherit that; a handler they do not.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
