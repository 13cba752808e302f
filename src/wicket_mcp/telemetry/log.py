"""Logs, and the removal of characters that must not reach a terminal.

Logs go to stderr, never to stdout, which belongs to the protocol; every line is cleaned once, when it is formatted.
Upstream text that is shown elsewhere (tables, errors) goes through `clean`. `redact` masks secrets.
"""

import logging
import os
import re
import select
import sys
from collections.abc import Callable
from typing import Any

from wicket_mcp.telemetry.known import KNOWN

# Characters that hide or reorder text: fillers, zero-width, bidi, tags, selectors of variants (but those of emoji).
_HIDING = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0"
    r"\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
_UNSAFE = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIDING}]")  # and C0 and C1 controls except tab and newline
_UNPRINTABLE = re.compile(rf"[^\n\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]|[{_HIDING}]")
MAX_QUOTED = 200
"""Characters of a stranger's text inside a sentence of ours."""
_NAME = re.compile(r"[\w.:/@+-]*", re.ASCII)
_IN_QUOTES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"}
_LAYOUT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_PAGE = 4096
_PATIENCE = 20  # milliseconds
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


def clean(text: str, limit: int | None = None) -> str:
    """`text` without terminal escapes and invisible characters, cut to `limit` characters."""
    return cut(_UNSAFE.sub("", _ESCAPES.sub("", text)), limit)


def cut(text: str, limit: int | None) -> str:
    """The first `limit` characters, with an ellipsis if something was cut."""
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str, limit: int | None = None) -> str:
    """`text` as one printable line."""
    return cut(" ".join(clean(text).split()), limit)


def quote(text: str) -> str:
    """A stranger's text for a sentence of ours: in quotation marks, on one line, with whatever could pose as
    something else escaped.
    """
    return escape(f'"{cut(text, MAX_QUOTED).translate(_IN_QUOTES)}"')


def quote_name(name: str) -> str:
    """A name for a sentence of ours: as it is if it cannot be mistaken for more, else as `quote` writes it."""
    return name if len(name) <= MAX_QUOTED and _NAME.fullmatch(name) else quote(name)


def enclose(name: str) -> str:
    """A name in quotation marks, for a sentence of ours: single ones if it cannot be mistaken for more."""
    return f"'{name}'" if quote_name(name) == name else quote(name)


def escape(json_text: str) -> str:
    """JSON text of the same value, with all control and invisible characters escaped."""
    return _UNPRINTABLE.sub(_escape, json_text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class _CleanFormatter(logging.Formatter):
    """Cleans and masks the whole line, so that callers do not have to. A message is one line, and the lines of a
    traceback are indented: text of a server cannot begin a line.
    """

    def format(self, record: logging.LogRecord) -> str:
        return KNOWN.mask(clean(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        return "\\n".join(super().formatMessage(record).splitlines())

    def formatException(self, ei: Any) -> str:  # noqa: N802  (logging's name)
        return "\n".join(f"  {line}" for line in super().formatException(ei).splitlines())


class LineHandler(logging.Handler):
    """Passes every line, cleaned and masked, to a function."""

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__()
        self._take = take
        self.setFormatter(_CleanFormatter(_LAYOUT, "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self._take(self.format(record))


class _StderrHandler(logging.Handler):
    """Writes lines to a descriptor, and drops them rather than wait for a reader."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n"
        if self._lost:
            line = f"({self._lost} lines of the log are lost: nobody read them)\n{line}"
        data = line.encode("utf-8", "replace")
        # A pipe that is ready accepts a page at once. After one timeout we do not wait again.
        while data and self._poll.poll(0 if self._lost else _PATIENCE):
            try:
                data = data[os.write(self._descriptor, data[:_PAGE]) :]
            except OSError:  # the reader is gone
                return
        self._lost = self._lost + 1 if data else 0


def _handler() -> logging.Handler:
    try:
        return _StderrHandler(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # no such system call, or no descriptor
        return logging.StreamHandler(sys.stderr)


def configure_logging(level: str) -> None:
    """Send our logs to stderr. Called only by the command line: a library leaves logging to its user."""
    handler = _handler()
    handler.setFormatter(_CleanFormatter(_LAYOUT, "%H:%M:%S"))
    root = logging.getLogger("wicket_mcp")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
