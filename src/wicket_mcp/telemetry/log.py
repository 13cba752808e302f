"""Logs, and the one place where text is made safe to show: secrets masked, control characters removed.

Logs go to stderr, never to stdout, which belongs to the protocol. Everything that comes from an upstream and is
meant for a person's eyes passes `clean`; everything that may carry a configured secret passes a `Redactor`.
"""

import logging
import re
import sys
from collections.abc import Iterable

MASK = "***"
_SHORTEST_SECRET = 6  # masking shorter values would blank out ordinary words

# C0 and C1 controls but tab and newline, and what hides or reorders text: zero-width, bidi, tag characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


def clean(text: str, limit: int | None = None) -> str:
    """`text` without terminal escapes and invisible characters, cut to `limit` characters."""
    safe = _UNSAFE.sub("", _ESCAPES.sub("", text))
    return safe if limit is None or len(safe) <= limit else f"{safe[: limit - 1]}…"


class Redactor:
    """Masks the values it was given wherever they appear."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text


def configure_logging(level: str) -> None:
    """Send our logs to stderr. Called by the command line only: a library leaves logging to its user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger("wicket_mcp")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
