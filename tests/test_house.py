"""The figures of the house only fall: `tools/house.toml` keeps the most that each may be."""

import subprocess
import sys
import tomllib
from pathlib import Path

TOOLS = Path(__file__).parent.parent / "tools"


def test_no_figure_of_the_house_rises() -> None:
    done = subprocess.run([sys.executable, TOOLS / "house.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_places_behind_a_figure_are_listed() -> None:
    command = [sys.executable, TOOLS / "house.py", "--where", "ContextVars"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    limits = tomllib.loads((TOOLS / "house.toml").read_text("utf-8"))
    assert 0 < len(listed.stdout.splitlines()) <= limits["ContextVars"]
