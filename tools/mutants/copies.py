"""A copy of the repository with an environment of its own: what is broken there is broken nowhere else."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".node", "__pycache__", ".*_cache", "dist")


class Copy:
    """A copy of `root` at `place`, whose modules are imported before those of the installation."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = place
        self._changes = 0
        shutil.copytree(root, place, ignore=_LEFT_OUT, symlinks=True)
        if (root / ".node").exists():
            (place / ".node").symlink_to((root / ".node").resolve())
        venv.create(place / ".venv", symlinks=True, with_pip=False)
        self.python = place / ".venv" / "bin" / "python"
        packages = sysconfig.get_path("purelib", vars={"base": str(place / ".venv")})
        found = (place / "src", sysconfig.get_path("purelib"))
        (Path(packages) / "mutants.pth").write_text("".join(f"{folder}\n" for folder in found))
        for program in Path(sys.executable).parent.iterdir():
            self._take(program)

    def _take(self, program: Path) -> None:
        """Programs of the installation, started by the copy's Python."""
        own = self.python.with_name(program.name)
        if own.exists() or program.is_dir():
            return
        data = program.read_bytes()
        if data.startswith(b"#!"):
            own.write_bytes(data.replace(os.fsencode(sys.executable), os.fsencode(self.python), 1))
            own.chmod(0o755)
        else:
            own.symlink_to(program)

    def write(self, path: str, text: str) -> None:
        """Change a module. Its time is always another one, so that nothing that was compiled before is used."""
        self._changes += 1
        file = self.root / path
        file.write_text(text, "utf-8")
        os.utime(file, (self._changes, self._changes))

    def run(
        self, *arguments: str, limit: float, variables: Mapping[str, str] | None = None
    ) -> "tuple[int | None, str]":
        """How pytest ended, None after too long, and what it printed."""
        command: Sequence[str | Path] = (self.python, "-m", "pytest", "-p", "no:cacheprovider", *arguments)
        environ = {**os.environ, **(variables or {})}
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=limit)
                return process.returncode, printed
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                _end_group(process.pid)


def _end_group(leader: int) -> None:
    """Whatever a run left behind, such as the servers of a test that was interrupted."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
