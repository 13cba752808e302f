"""Starting a module of this folder in a process of its own, with the checkout's Wicket whatever the interpreter has."""

import os
import subprocess

from retrieval.sets import ROOT


def child(python: str, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [python, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT / "bench", env=environ)
