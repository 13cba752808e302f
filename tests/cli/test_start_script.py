"""`scripts/start` in a fresh copy of the checkout: it says what it does while it does it, and then serves."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.peers.ports import free_port

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==.*(?:\n[ \t]+.*)*\n", re.MULTILINE)


def needed(*names: str) -> set[str]:
    """These packages and all that they need here, without extras."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            asked = [Requirement(line) for line in requires(name) or ()]
            waiting += [each.name for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def copy_checkout(folder: Path) -> Path:
    """A checkout whose demonstration needs Wicket's own packages only: the three servers are many megabytes."""
    copy = folder / "wicket"
    copy.mkdir()
    for name in ("src", "scripts", "demo"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "requirements").mkdir()
    kept = needed("wicket-mcp", "hatchling", "editables")
    blocks = PINNED.finditer((ROOT / "requirements" / "demo.txt").read_text("utf-8"))
    pinned = "".join(block[0] for block in blocks if block[1].lower().replace("_", "-") in kept)
    (copy / "requirements" / "demo.txt").write_text(pinned, "utf-8")
    return copy


def test_a_fresh_checkout_says_what_it_does_and_then_serves(tmp_path: Path) -> None:
    copy, port = copy_checkout(tmp_path), free_port()
    environ = {**os.environ, "PYTHON": sys.executable, "PIP_QUIET": "0"}
    for is_first in (True, False):
        told: list[str] = []
        with subprocess.Popen(
            [copy / "scripts" / "start", f"127.0.0.1:{port}"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            for line in process.stdout or ():
                told.append(line)
                if f"at http://127.0.0.1:{port}/mcp" in line:
                    process.terminate()
        text = "".join(told)
        assert f"at http://127.0.0.1:{port}/mcp" in text, text
        assert '"mcpServers"' in text, text
        assert ("Making .venv with Python 3." in text) is is_first, text
        assert ("packages of requirements/demo.txt into .venv" in text) is is_first, text
        assert ("Successfully installed" in text) is is_first, text  # what pip says
        assert ("Installing this checkout" in text) is is_first, text
