"""A span of a trace: what is noted while a request runs, and how it is encoded later, together with others.

A span under way holds a few values; the attributes that repeat are encoded once and cached. `trace.py` decides which
requests have spans and fills them in; `otlp.py` encodes them when a batch is sent.
"""

import random
import re
import struct
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from wicket_mcp.model import as_text
from wicket_mcp.telemetry.otlp import attributes, field, number_field

SERVER, CLIENT = 2, 3
_TRACE, _ID, _PARENT = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
"""The fixed-length fields of a span, up to their content: what `field` would write each time."""
_KIND, _STARTED, _ENDED = 6 << 3, 7 << 3 | 1, 8 << 3 | 1
_TIMES = struct.Struct("<BBBQBQ")
_FAILED = field(15, number_field(3, 2))
_SAMPLED = 1
_TRACEPARENT = re.compile("(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class Context(NamedTuple):
    """The content of a `traceparent`: the parent span."""

    trace: bytes
    span: bytes
    sampled: bool
    state: str = ""
    baggage: str = ""


def read_context(traceparent: Any, state: Any = "", baggage: Any = "") -> Context | None:
    """None if it is malformed."""
    if not isinstance(traceparent, str) or (match := _TRACEPARENT.fullmatch(traceparent.strip())) is None:
        return None
    trace, span, flags = bytes.fromhex(match[1]), bytes.fromhex(match[2]), int(match[3], 16)
    if not any(trace) or not any(span):
        return None
    return Context(trace, span, bool(flags & _SAMPLED), as_text(state), as_text(baggage))


class Span:
    """One that is kept, from its beginning to its encoding."""

    __slots__ = (
        "baggage",
        "common",
        "ended",
        "failed",
        "id",
        "kind",
        "link",
        "name",
        "own",
        "parent",
        "started",
        "state",
        "trace",
    )

    def __init__(self, kind: int, name: str, context: Context | None) -> None:
        self.kind, self.name = kind, name
        if context is None:
            numbers = random.randbytes(24)
            self.trace, self.id = numbers[:16], numbers[16:]
            self.parent, self.state, self.baggage = b"", "", ""
        else:
            self.id = random.randbytes(8)
            self.trace, self.parent, _, self.state, self.baggage = context
        self.common: tuple[tuple[str, str | int], ...] = ()
        """The attributes that many spans share."""
        self.own: dict[str, str | int] = {}
        """The attributes that only this span has."""
        self.link: Context | None = None
        self.failed = False
        self.started = time.time_ns()
        self.ended = 0

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace.hex()}-{self.id.hex()}-01"

    @property
    def context(self) -> Context:
        """This span as a parent."""
        return Context(self.trace, self.id, True, self.state, self.baggage)

    def inject(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The `_meta` of a request that is a child of this span; what its client sent along stays as it is."""
        injected: dict[str, Any] = {**meta, "traceparent": self.traceparent}
        if self.state:
            injected.setdefault("tracestate", self.state)
        if self.baggage:
            injected.setdefault("baggage", self.baggage)
        return injected

    def fail(self, kind: str) -> None:
        self.own["error.type"] = kind
        self.failed = True

    def encode(self) -> bytes:
        parts = [
            _TRACE,
            self.trace,
            _ID,
            self.id,
            _encode_name(self.name),
            _TIMES.pack(_KIND, self.kind, _STARTED, self.started, _ENDED, self.ended),
            _encode_common(self.common),
            attributes(9, self.own),
        ]
        if self.parent:
            parts += (_PARENT, self.parent)
        if self.state:
            parts.append(field(3, self.state.encode("utf-8", "replace")))
        if self.link is not None:
            parts.append(field(13, field(1, self.link.trace) + field(2, self.link.span)))
        if self.failed:
            parts.append(_FAILED)
        return b"".join(parts)


@lru_cache(1024)
def _encode_name(name: str) -> bytes:
    return field(5, name.encode("utf-8", "replace"))


@lru_cache(1024)
def _encode_common(pairs: tuple[tuple[str, str | int], ...]) -> bytes:
    return attributes(9, dict(pairs))
