"""One server's share of the index, as bytes.

A segment holds all that is costly to compute for a listing (features with weights, vectors), depends on that
listing alone, and is versioned: bytes that another version of this code or another table wrote are refused by
`Segment.read`, and rebuilt.
"""

import struct
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Protocol

from wicket.core.search.features import Features
from wicket.core.search.fields import ToolText, tool_text
from wicket.core.search.static import packaged_table
from wicket.core.search.text import words
from wicket.model import Listing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 4
FIELDS: dict[str, float] = {
    "server": 1.2,
    "name": 2.0,
    "title": 1.0,
    "description": 1.0,
    "parameters": 0.7,
    "parameter_text": 0.4,
    "about": 0.15,
}
_HEAD = struct.Struct("<4sHHIII")  # magic, version, width of the model's vectors, table, tools, features
_MAGIC = b"WKSG"
_SCALE = 127.0


class Model(Protocol):
    """A sentence encoder beside the static table: the `semantic` extra."""

    width: int

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Unit vectors."""
        ...


def build_segment(listing: Listing, model: Model | None = None) -> bytes:
    """Index one listing. Pure CPU; call it away from the event loop."""
    from wicket.core.search.numeric import np  # noqa: PLC0415  (a process that never searches must not pay for numpy)

    texts = [tool_text(tool, listing) for tool in listing.tools]
    numbers: list[int] = []
    weights: list[float] = []
    counts: list[int] = []
    for text in texts:
        before = len(numbers)
        for feature, weight in weigh(text):
            numbers.append(feature)
            weights.append(weight)
        counts.append(len(numbers) - before)
    table = packaged_table()
    meanings = table.vectors(words(text.meaning) for text in texts) if texts else np.empty((0, table.width))
    learned = model.encode([text.meaning for text in texts]) if model and texts else np.empty((len(texts), 0))
    width = model.width if model else 0
    return b"".join(
        (
            _HEAD.pack(_MAGIC, VERSION, width, table.checksum, len(texts), len(numbers)),
            np.asarray(counts, "<u4").tobytes(),
            np.asarray(numbers, "<u4").tobytes(),
            np.asarray(weights, "<f2").tobytes(),
            np.rint(meanings * _SCALE).astype(np.int8).tobytes(),
            np.rint(learned * _SCALE).astype(np.int8).tobytes(),
        )
    )


def weigh(text: ToolText) -> list[tuple[int, float]]:
    """The features of a tool over all its fields, each with a damped weight."""
    found = Features()
    for name, weight in FIELDS.items():
        found.add(words(getattr(text, name)), weight)
    return [
        (feature, worth * (1 + log(count) if count > 1 else count))
        for counted, worth in found.kinds()
        for feature, count in counted.items()
    ]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as arrays over its bytes: per tool a count of features, then all features in that order."""

    counts: "NDArray[np.uint32]"
    numbers: "NDArray[np.uint32]"
    weights: "NDArray[np.float16]"
    meanings: "NDArray[np.int8]"
    learned: "NDArray[np.int8]"

    @classmethod
    def read(cls, data: bytes, tools: int, model: Model | None = None) -> "Segment | None":
        """The segment in `data`, or None when it was not made by this code, table and model for these tools."""
        from wicket.core.search.numeric import np  # noqa: PLC0415  (as above)

        if len(data) < _HEAD.size:
            return None
        table = packaged_table()
        magic, version, width, checksum, count, features = _HEAD.unpack_from(data)
        expected = (_MAGIC, VERSION, model.width if model else 0, table.checksum, tools)
        size = _HEAD.size + count * (4 + table.width + width) + features * 6
        if (magic, version, width, checksum, count) != expected or len(data) != size:
            return None
        at = _HEAD.size
        counts = np.frombuffer(data, "<u4", count, at)
        numbers = np.frombuffer(data, "<u4", features, at := at + 4 * count)
        weights = np.frombuffer(data, "<f2", features, at := at + 4 * features)
        meanings = np.frombuffer(data, np.int8, count * table.width, at := at + 2 * features)
        learned = np.frombuffer(data, np.int8, count * width, at + count * table.width)
        return cls(counts, numbers, weights, meanings.reshape(count, table.width), learned.reshape(count, width))
