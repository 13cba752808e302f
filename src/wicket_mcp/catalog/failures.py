"""Why a server is missing, in a few words: for an answer or a command that is about something else.

Knows the wording of our own errors, and what a server obviously lacks. `wicket doctor` and `wicket servers` show the
whole text.
"""

import os
import shutil
from pathlib import Path

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.config.read.secrets import known_missing
from wicket_mcp.schema.descriptions import shorten

FIRST_ANSWER = 3.0  # seconds that an answer waits for servers that were never listed; slower ones are named
STILL_STARTING = "It is still starting; ask again in a moment."
_LONGEST = 80


def ask_again(starting: int) -> str:
    """What to do about a name that a server may have which has not listed its tools yet."""
    subject = "A server is" if starting == 1 else f"{starting} servers are"
    return f"{subject} still starting; ask again in a moment, or name its server (server.tool)."


def summarize_failure(server: str, problem: str) -> str:
    """`GITHUB_TOKEN is not set`, from the whole reason why a server could not be listed."""
    first = problem.splitlines()[0].rpartition(f"erver '{server}' ")[2].removeprefix("needs the environment variable ")
    return shorten(first.partition(". ")[0].replace(", which is not set", " is not set").rstrip("."), _LONGEST)


def is_news(before: str | None, problem: str) -> bool:
    """Whether a server fails for another reason than before; that it has failed again is not news."""
    return before is None or (_first_sentence(before) not in problem and _first_sentence(problem) not in before)


def _first_sentence(problem: str) -> str:
    return problem.partition("\n")[0].partition(". ")[0].rstrip(".")


def lacks_something(server: ServerConfig, base_dir: Path) -> bool:
    """Whether a server cannot start, as far as that is known without trying: a variable or its command is missing."""
    if known_missing(server, os.environ, base_dir):
        return True
    command = server.command or ""
    if not command or set(command) & set("/\\$~"):  # a path may depend on the folder; let the start decide
        return False
    return shutil.which(command, path=server.env.get("PATH")) is None
