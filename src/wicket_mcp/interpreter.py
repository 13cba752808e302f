"""The one place that says how this Python is started again for ourselves.

A client starts us in its user's working folder, which may be a stranger's repository, and Python imports from there
with `-m` and `-c`. So a module of ours is started with `-P`, and what it starts has `PYTHONSAFEPATH`. Users' servers
are not started here: they have an environment of their own (`upstream/stdio.py`). Imported by the shim: loads nothing.
"""

import os
import sys

TYPE_CHECKING = False  # as in the shim
if TYPE_CHECKING:
    from collections.abc import Mapping

PYTHON = sys.executable


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs a module of this Python, which imports nothing from the current folder."""
    return (PYTHON, "-P", "-m", module, *arguments)


def isolated_environment(environ: "Mapping[str, str]") -> dict[str, str]:
    """The environment for a process of ours: what it starts does not import from the current folder either.

    An empty or relative part of `PYTHONPATH` (as `PYTHONPATH=$PYTHONPATH:/x` leaves one) means the current folder.
    """
    isolated = {**environ, "PYTHONSAFEPATH": "1"}
    if "PYTHONPATH" in isolated:
        parts = isolated["PYTHONPATH"].split(os.pathsep)
        isolated["PYTHONPATH"] = os.pathsep.join(part for part in parts if os.path.isabs(part))
    return isolated


def imports_from_here() -> bool:
    """Whether `python -m` has put the current folder at the head of `sys.path`."""
    try:
        return not sys.flags.safe_path and os.path.samefile(sys.path[0], ".")
    except OSError:  # one of them is gone
        return False
