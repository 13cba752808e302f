"""Why a server is missing, in a few words: for an answer or a command that is about something else.

Knows the wording of our own errors only. `wicket doctor` and `wicket servers` show the whole text.
"""

from wicket_mcp.schema.descriptions import shorten

_LONGEST = 80


def summarize_failure(server: str, problem: str) -> str:
    """`GITHUB_TOKEN is not set`, from the whole reason why a server could not be listed."""
    first = problem.splitlines()[0].rpartition(f"erver '{server}' ")[2].removeprefix("needs the environment variable ")
    return shorten(first.partition(". ")[0].replace(", which is not set", " is not set").rstrip("."), _LONGEST)


def is_news(before: str | None, problem: str) -> bool:
    """Whether a server fails for another reason than before; that it has failed again is not news."""
    return before is None or before.partition("\n")[0].partition(". ")[0].rstrip(".") not in problem
