"""One server's share of the index, as bytes.

A segment holds all that is costly to compute for a listing (terms, weights), depends on that listing alone,
and is versioned: bytes that another version of this code wrote are refused by `Segment.read` and rebuilt.
"""

import struct
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wicket.core.search.fields import ToolText, tool_text
from wicket.core.search.text import terms
from wicket.model import Listing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
_HEAD = struct.Struct("<4sHHII")
_MAGIC = b"WKSG"

# field: weight, length normalisation, usual length. The usual length is a constant, not this catalogue's
# mean, so that a segment never depends on its neighbours.
FIELDS: dict[str, tuple[float, float, float]] = {
    "server": (1.5, 0.3, 2.0),
    "name": (3.0, 0.3, 3.0),
    "title": (1.0, 0.3, 3.0),
    "description": (1.0, 0.75, 14.0),
    "parameters": (0.6, 0.75, 5.0),
    "parameter_text": (0.3, 0.75, 25.0),
    "about": (0.2, 0.75, 10.0),
}


def term_id(term: str) -> int:
    """A term's number, the same in every process. Collisions are rarer than synonyms."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def build_segment(listing: Listing) -> bytes:
    """Index one listing. Pure CPU; call it away from the event loop."""
    import numpy as np  # noqa: PLC0415  (serving must not pay for numpy before the first search)

    ids: list[int] = []
    owners: list[int] = []
    weights: list[float] = []
    for position, tool in enumerate(listing.tools):
        for term, weight in weigh(tool_text(tool, listing)).items():
            ids.append(term_id(term))
            owners.append(position)
            weights.append(weight)
    return b"".join(
        (
            _HEAD.pack(_MAGIC, VERSION, 0, len(listing.tools), len(ids)),
            np.asarray(ids, "<u4").tobytes(),
            np.asarray(owners, "<u4").tobytes(),
            np.asarray(weights, "<f4").tobytes(),
        )
    )


def weigh(text: ToolText) -> dict[str, float]:
    """Every term of a tool with its weighted, length-normalised frequency over all fields (BM25F)."""
    found: Counter[str] = Counter()
    for name, (weight, norm, usual) in FIELDS.items():
        counted = Counter(terms(getattr(text, name)))
        length = 1 - norm + norm * counted.total() / usual
        for term, count in counted.items():
            found[term] += weight * count / length  # pyright: ignore[reportArgumentType]
    return dict(found)


@dataclass(frozen=True, slots=True)
class Segment:
    """Postings of one server, still unsorted: (term, tool, weight) in three parallel arrays."""

    tools: int
    ids: "NDArray[np.uint32]"
    owners: "NDArray[np.uint32]"
    weights: "NDArray[np.float32]"

    @classmethod
    def read(cls, data: bytes, tools: int) -> "Segment | None":
        """The segment in `data`, or None when it is of another version or of another listing."""
        import numpy as np  # noqa: PLC0415  (as above)

        if len(data) < _HEAD.size:
            return None
        magic, version, _, count, postings = _HEAD.unpack_from(data)
        if (magic, version, count) != (_MAGIC, VERSION, tools) or len(data) != _HEAD.size + 12 * postings:
            return None
        at = _HEAD.size
        return cls(
            tools=count,
            ids=np.frombuffer(data, "<u4", postings, at),
            owners=np.frombuffer(data, "<u4", postings, at + 4 * postings),
            weights=np.frombuffer(data, "<f4", postings, at + 8 * postings),
        )
