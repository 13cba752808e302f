"""What the tests of vocabularies share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PEERS

BESIDE = Path(sys.executable).parent
"""Where the interpreter's own programs are; uv among them."""


@pytest.fixture
def package_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones: npx of this machine, and uvx, which is installed with the other requirements of the tests."""
    monkeypatch.setenv("PATH", f"{BESIDE}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def only_pipx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has pipx and no uvx."""
    folder = tmp_path / "pipx"
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    command = [str(BESIDE / "uv"), "tool", "install", "--quiet", "--python", sys.executable, "pipx"]
    subprocess.run(command, check=True, env={**os.environ, **places}, stderr=subprocess.DEVNULL)
    monkeypatch.setenv("PATH", str(folder / "bin"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / ".local" / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def careless_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Package managers that start something harmless whatever they are asked for: a check that lets the wrong thing
    through is seen to do so, and does no harm.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("npx", "uvx", "docker"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\n[ "$1" = version ] && exit 0\nexec {sys.executable} {PEERS}/stdio_peer.py Echo\n'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
