"""Nothing grows: a short run of `bench/soak.py`, which runs for hours by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.promise("F33", "Memory, tasks, descriptors and threads do not grow over time.")
@pytest.mark.timeout(300)
def test_f33_nothing_grows() -> None:
    command = [sys.executable, str(ROOT / "bench" / "soak.py"), "0.4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "nothing grew" in done.stdout
