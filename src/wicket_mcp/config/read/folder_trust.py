"""Which configurations of a folder their owner said yes to: by path and content, in the platform's state folder.

A file that a cloned repository brings along must start nothing by being there. The answers stand beside the state and
never where the file itself could say (`state_dir`). What was said yes to is the file's bytes: a changed file is asked
about again. Asking is the command line's business; `formats.load` reads nothing of a file that has no yes.
"""

import hashlib
import time
from pathlib import Path
from typing import TypedDict

from wicket_mcp.codec import decode, pretty
from wicket_mcp.config.read import locate
from wicket_mcp.files import replace_file
from wicket_mcp.model import as_object

FILE = "trusted.json"


class Answer(TypedDict):
    """A yes: to which content, and when."""

    sha256: str
    at: float


def answers_file() -> Path:
    return locate.state_folder() / FILE


def answers() -> dict[str, Answer]:
    """Every yes, by path. A file that cannot be read holds none."""
    try:
        stored = as_object(decode(answers_file().read_bytes()))
    except (OSError, ValueError):
        return {}
    return {path: answer for path, answer in stored.items() if isinstance(as_object(answer).get("sha256"), str)}


def is_trusted(path: Path, content: bytes) -> bool:
    answer = answers().get(str(path.resolve()))
    return answer is not None and answer["sha256"] == digest(content)


def was_trusted(path: Path) -> bool:
    """Whether there was a yes to this path, whatever it held then."""
    return str(path.resolve()) in answers()


def trust(path: Path, content: bytes) -> None:
    """Remember a yes to this path and content. Raises ConfigError."""
    updated = answers() | {str(path.resolve()): Answer(sha256=digest(content), at=time.time())}
    replace_file(answers_file(), f"{pretty(updated)}\n")


def forget(path: Path) -> bool:
    """Take a yes back; whether there was one. Raises ConfigError."""
    stored = answers()
    if stored.pop(str(path.resolve()), None) is None:
        return False
    replace_file(answers_file(), f"{pretty(stored)}\n")
    return True


def explain(path: Path) -> str:
    """Why there are no servers, for the client, the agent and the log."""
    reason = "has changed since you trusted it" if was_trusted(path) else "was found in this folder and is not trusted"
    return f"No servers: {path} {reason}. Read it, then run: wicket trust {path}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
