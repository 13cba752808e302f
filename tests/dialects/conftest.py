"""What the tests of vocabularies share."""

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import PEERS


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of package managers, first in the path: each starts the healthy test peer, whatever it is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("npx", "uvx", "docker"):
        script = folder / name
        script.write_text(
            f'#!/bin/sh\n[ "$1" = version ] && exit 0\nexec {sys.executable} {PEERS}/stdio_peer.py Echo\n'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder
