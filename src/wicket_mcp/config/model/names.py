"""Server names as ids: which are valid, and how to derive a valid one from any name.

Tools are called by `<server>.<tool>`, so an id must be plain to type. Deriving is deterministic: the same
file gives the same ids every time.
"""

import re
import unicodedata

PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

_VALID = re.compile(PATTERN)
_LONGEST = 64


def is_valid(name: str) -> bool:
    return _VALID.fullmatch(name) is not None


def derive(name: str) -> str:
    """A valid id that resembles `name`: `GitHub (work)` becomes `GitHub-work`."""
    if is_valid(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    dashed = re.sub(r"[^A-Za-z0-9_.]+", "-", plain)
    return dashed.lstrip("_.-")[:_LONGEST].rstrip("_.-") or "server"


class Names:
    """The ids used in one configuration. Two that differ only in case count as the same, because people confuse
    them.
    """

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def holder(self, name: str) -> str | None:
        """The existing id that conflicts with `name`, if any."""
        return self._taken.get(name.lower())

    def claim(self, name: str) -> str:
        """Take an id for `name`: itself, or a derived one, numbered if it is taken."""
        base = derive(name)
        free, number = base, 2
        while free.lower() in self._taken:
            suffix = f"-{number}"
            free, number = base[: _LONGEST - len(suffix)] + suffix, number + 1
        self._taken[free.lower()] = free
        return free
