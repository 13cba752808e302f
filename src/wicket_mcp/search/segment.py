"""One server's part of the index, as bytes.

A segment contains everything expensive to compute for a listing (features with weights, vectors), depends only on that
listing, and is versioned: `Segment.read` rejects bytes of another version of this code, another table or another model,
and they are rebuilt. What the networks read of the tools, the model's vectors and the judge's rows, is the last part,
and may be added later.
"""

import struct
from array import array
from collections.abc import Sequence
from itertools import accumulate
from math import log
from typing import TYPE_CHECKING, Protocol

import msgspec

from wicket_mcp.model import Listing
from wicket_mcp.pauses import rest_between
from wicket_mcp.search.encoder import PACKAGED
from wicket_mcp.search.features import Features
from wicket_mcp.search.fields import ToolText, tool_text
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 7
FIELDS: dict[str, float] = {
    "server": 1.2,
    "name": 2.0,
    "title": 1.0,
    "description": 1.0,
    "parameters": 0.7,
    "parameter_text": 0.4,
    "about": 0.15,
}
_HEAD = struct.Struct("<4sHHIIII")  # magic, version, width of the model's vectors, table, tools, features, postings
_MAGIC = b"WKSG"
_SCALE = 127.0


class Model(Protocol):
    """A sentence encoder in addition to the static table: Wicket's own, or the user's."""

    @property
    def width(self) -> int: ...

    @property
    def checksum(self) -> int:
        """Identifies the model: vectors of different models cannot be compared."""
        ...

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Unit vectors of tools' texts."""
        ...

    def encode_queries(self, texts: list[str]) -> "NDArray[np.float32]":
        """Unit vectors of queries, to be compared with those of tools."""
        ...


def build_segment(listing: Listing, model: Model | None = None, *, learned: bool = True) -> bytes:
    """Index one listing. Pure CPU; call it off the event loop.

    The model's vectors cost several milliseconds per tool. Without them (`learned`) a segment is ready at once and can
    be searched by words and the table; `learn_segment` adds them.
    """
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (a process that never searches must not pay for numpy)

    texts = [tool_text(tool, listing) for tool in rest_between(listing.tools)]
    # Arrays, because numpy turns a list of a million numbers into one in a single step, for which the event loop waits.
    numbers, weights, owners = array("I"), array("d"), array("I")
    for owner, text in enumerate(rest_between(texts)):
        for feature, weight in weigh(text):
            numbers.append(feature)
            weights.append(weight)
            owners.append(owner)
    table = packaged_table()
    meanings = (
        table.vectors(words(text.meaning) for text in rest_between(texts)) if texts else np.empty((0, table.width))
    )
    keys = np.asarray(numbers, "<u4")
    order = np.argsort(keys, kind="stable")
    features, spans = np.unique(keys, return_counts=True)
    small = _small(len(texts))
    plain = b"".join(
        (
            _HEAD.pack(_MAGIC, VERSION, 0, table.checksum, len(texts), len(features), len(numbers)),
            features.tobytes(),
            spans.astype(small).tobytes(),
            np.asarray(owners, small)[order].tobytes(),
            np.asarray(weights, "<f2")[order].tobytes(),
            np.rint(meanings * _SCALE).astype(np.int8).tobytes(),
        )
    )
    return learn_segment(plain, listing, model) if learned else plain


def learn_segment(plain: bytes, listing: Listing, model: Model | None = None) -> bytes:
    """Adds what the networks read to a segment that was built without it. Pure CPU, several milliseconds per tool."""
    from wicket_mcp.search.judge import packaged_judge  # noqa: PLC0415  (imports numpy)
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    model = model or PACKAGED
    texts = [tool_text(tool, listing).meaning for tool in listing.tools]
    if not texts or not model.width:
        return plain
    learned = np.rint(model.encode(texts) * _SCALE).astype(np.int8)
    readings = packaged_judge().read_tools(texts)
    pieces = np.array([len(rows) for rows in readings], np.uint8)
    magic, version, _, _, *counts = _HEAD.unpack_from(plain)
    head = _HEAD.pack(magic, version, model.width, _checksum(model), *counts)
    parts = (learned, pieces, *readings)
    return b"".join((head, plain[_HEAD.size :], *(part.tobytes() for part in parts)))


def cut_segment(segment: "Segment", positions: Sequence[int], data: bytes) -> bytes:
    """The bytes of a segment of only some of its tools, by position: as if the others had never been read."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    places = np.full(len(segment.meanings), -1, np.int64)
    places[positions] = np.arange(len(positions))
    owners = places[segment.owners]
    stays = owners >= 0
    feature = np.repeat(np.arange(len(segment.numbers)), segment.spans)
    spans = np.bincount(feature[stays], minlength=len(segment.numbers))
    small = _small(len(positions))
    pieces = segment.pieces[positions] if len(segment.pieces) else segment.pieces
    rows = np.repeat(places, segment.pieces) >= 0 if len(segment.pieces) else np.zeros(0, bool)
    magic, version, width, checksum, *_ = _HEAD.unpack_from(data)
    parts = (
        segment.numbers[spans > 0],
        spans[spans > 0].astype(small),
        owners[stays].astype(small),
        segment.weights[stays],
        segment.meanings[positions],
        segment.learned[positions],
        pieces,
        segment.readings[rows],
    )
    head = _HEAD.pack(magic, version, width, checksum, len(positions), int((spans > 0).sum()), int(stays.sum()))
    return b"".join((head, *(part.tobytes() for part in parts)))


def _checksum(model: Model) -> int:
    """Identifies what read the tools of a segment."""
    from wicket_mcp.search.judge import CHECKSUM  # noqa: PLC0415  (imports numpy)

    return packaged_table().checksum ^ model.checksum ^ CHECKSUM


class NoModel:
    """Implements Model for search by words and the table only."""

    width = 0
    checksum = 0

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        return np.empty((len(texts), 0), np.float32)

    encode_queries = encode


def _small(tools: int) -> str:
    """The smallest type that can number a listing's tools."""
    return "<u2" if tools < 1 << 16 else "<u4"


def weigh(text: ToolText) -> list[tuple[int, float]]:
    """The features of a tool over all its fields, each with a damped weight."""
    features = Features()
    for name, weight in FIELDS.items():
        features.add(words(getattr(text, name)), weight)
    return [
        (feature, worth * (1 + log(count) if count > 1 else count))
        for counted, worth in features.kinds()
        for feature, count in counted.items()
    ]


def is_unread(data: bytes) -> bool:
    """Whether these are the bytes of a segment whose tools the model has not read; quick, and without numpy."""
    if len(data) < _HEAD.size:
        return False
    _, _, width, _, count, *_ = _HEAD.unpack_from(data)
    return bool(count and not width)


class Segment(msgspec.Struct, frozen=True):
    """A segment as arrays over its bytes: the listing's features in order, and the tools that have each."""

    numbers: "NDArray[np.uint32]"
    spans: "NDArray[np.unsignedinteger]"
    """How many tools have each feature: `owners` and `weights` have that many entries for it."""
    owners: "NDArray[np.unsignedinteger]"
    weights: "NDArray[np.float16]"
    meanings: "NDArray[np.int8]"
    learned: "NDArray[np.int8]"
    """The model's vectors; rows of width zero if they are not computed yet."""
    pieces: "NDArray[np.uint8]"
    """How many rows the judge has of each tool; empty if it has read none yet."""
    readings: "NDArray[np.int8]"
    """What the judge read, tool after tool."""

    @property
    def is_learned(self) -> bool:
        """Whether the model's vectors are complete, or there is no tool."""
        return self.learned.shape[1] > 0 or not len(self.learned)

    @classmethod
    def read(cls, data: bytes, tools: int, model: Model | None = None) -> "Segment | None":
        """The segment in `data`, or None if it was not made by this code, table and model for these tools."""
        from wicket_mcp.search.judge import WIDTH  # noqa: PLC0415  (imports numpy)
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        if len(data) < _HEAD.size:
            return None
        table = packaged_table()
        magic, version, width, checksum, count, features, postings = _HEAD.unpack_from(data)
        if (magic, version, count) != (_MAGIC, VERSION, tools):
            return None
        model = model or PACKAGED
        if (width, checksum) not in ((model.width, _checksum(model)), (0, table.checksum)):
            return None
        small = np.dtype(_small(count))
        kinds = (("<u4", features), (small, features), (small, postings), ("<f2", postings))
        kinds += ((np.int8, count * table.width), (np.int8, count * width), (np.uint8, count if width else 0))
        sizes = [np.dtype(kind).itemsize * length for kind, length in kinds]
        end = _HEAD.size + sum(sizes)
        if len(data) < end:
            return None
        starts = accumulate(sizes, initial=_HEAD.size)
        numbers, spans, owners, weights, meanings, learned, pieces = (
            np.frombuffer(data, kind, length, at) for (kind, length), at in zip(kinds, starts, strict=False)
        )
        rows = int(pieces.sum(dtype=np.int64))
        if len(data) != end + rows * WIDTH:
            return None
        meanings, learned = meanings.reshape(count, table.width), learned.reshape(count, width)
        readings = np.frombuffer(data, np.int8, rows * WIDTH, end).reshape(rows, WIDTH)
        return cls(numbers, spans, owners, weights, meanings, learned, pieces, readings)
