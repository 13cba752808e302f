"""Which configurations in folders the user has approved: by path and content, in the platform's state folder.

A file in a cloned repository must not start anything merely because it exists. The approvals are stored with the state,
never at a place that the file itself could set (`state_dir`). An approval covers the exact bytes of the
file and of the favourites beside it: a changed file needs a new one. The command line asks; `formats.load` reads
nothing from a file without approval.
"""

import hashlib
import time
from pathlib import Path
from typing import TypedDict

from wicket_mcp.codec import decode, pretty
from wicket_mcp.config.read import locate
from wicket_mcp.config.read.favourites import OVERRIDES, REGISTRY
from wicket_mcp.files import replace_file
from wicket_mcp.model import as_object

FILE = "trusted.json"


class Answer(TypedDict):
    """An approval: of which content, and when."""

    sha256: str
    at: float


def answers_file() -> Path:
    return locate.state_folder() / FILE


def answers() -> dict[str, Answer]:
    """All approvals, by path. An unreadable file contains none."""
    try:
        stored = as_object(decode(answers_file().read_bytes()))
    except (OSError, ValueError):
        return {}
    return {path: answer for path, answer in stored.items() if isinstance(as_object(answer).get("sha256"), str)}


def is_trusted(path: Path, digest: str) -> bool:
    answer = answers().get(str(path.resolve()))
    return answer is not None and answer["sha256"] == digest


def was_trusted(path: Path) -> bool:
    """Whether this path was approved before, whatever its content was."""
    return str(path.resolve()) in answers()


def trust(path: Path, digest: str) -> None:
    """Store the approval of this path and content. Raises ConfigError."""
    updated = answers() | {str(path.resolve()): Answer(sha256=digest, at=time.time())}
    replace_file(answers_file(), f"{pretty(updated)}\n")


def forget(path: Path) -> bool:
    """Remove an approval; whether there was one. Raises ConfigError."""
    stored = answers()
    if stored.pop(str(path.resolve()), None) is None:
        return False
    replace_file(answers_file(), f"{pretty(stored)}\n")
    return True


def explain(path: Path) -> str:
    """Why there are no servers, for the client, the agent and the log."""
    reason = "has changed since you trusted it" if was_trusted(path) else "was found in this folder and is not trusted"
    return f"No servers: {path} {reason}. Ask the user to read it and to trust it in Wicket."


def digest(path: Path, content: bytes | None = None) -> str:
    """Of a file's content (read now if it is not given), and of the favourites beside it if there are any."""
    whole = hashlib.sha256(_read(path) if content is None else content)
    companions = [_read(path.parent / name) for name in (OVERRIDES, REGISTRY)]
    if any(companions):
        parts = [whole.digest(), *(hashlib.sha256(companion).digest() for companion in companions)]
        whole = hashlib.sha256(b"".join(parts))
    return whole.hexdigest()


def _read(path: Path) -> bytes:
    """Nothing if there is no such file, or it cannot be read: then nothing is taken from it."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
