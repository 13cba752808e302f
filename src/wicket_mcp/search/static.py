"""The static embedding table: one small vector per word, read from the package, no model and no network.

A text's vector is the weighted sum of its words' rows, scaled to length one; a word outside the vocabulary is the mean
of its character n-grams' rows, so a misspelt or unknown word is close to similar words. The table is built by
`tools/table/train.py`.
"""

import math
import mmap
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.search.text import remember_words, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEAD = struct.Struct("<8sIIII")
_MAGIC = b"WKTABLE1"
_FEW = 200
"""Words that a process looks up before it loads the whole vocabulary: a command that searches once never does."""


_BATCH = 4096
"""Rows that are added up in one call: numpy holds the interpreter meanwhile, and a server's texts may have millions."""


class _Batch:
    """The rows of some texts with their weights, and where the rows of each text begin."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.weights: list[float] = []
        self.starts: list[int] = []


def grams(word: str, buckets: int) -> list[int]:
    """Bucket numbers of a word's character n-grams, three to five long, ends marked."""
    marked = f"<{word}>"
    sizes = range(3, 6) if len(marked) > 3 else (len(marked),)
    pieces = {marked[i : i + n] for n in sizes for i in range(len(marked) - n + 1)}
    return sorted({zlib.crc32(piece.encode("utf-8", "surrogatepass")) % buckets for piece in pieces})


def write_table(
    vocabulary: Sequence[str], buckets: int, rows: "NDArray[np.int8]", scales: "NDArray[np.float32]"
) -> bytes:
    """The file format: head, scales, rows, words."""
    text = "\n".join(vocabulary).encode()
    head = _HEAD.pack(_MAGIC, len(vocabulary), buckets, rows.shape[1], len(text))
    return head + scales.astype("<f4").tobytes() + rows.tobytes() + text


class Table:
    """Row numbers for words, and rows for numbers."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (only a process that searches pays for numpy)

        magic, count, self.buckets, self.width, length = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("not an embedding table")
        total = count + self.buckets
        self.checksum = zlib.crc32(data[:4096])
        self._scales = np.frombuffer(data, "<f4", total, _HEAD.size)
        self._rows = np.frombuffer(data, np.int8, total * self.width, _HEAD.size + 4 * total)
        self._rows = self._rows.reshape(total, self.width)
        self._text = b"\n%b\n" % data[len(data) - length :]
        self._count = count
        self._looked_up = 0
        self._oov = remember_words(self._grams)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self._text.decode().split("\n")[1:-1])}

    def _number(self, word: str) -> int | None:
        """The row of a word. A few are found by scanning, the common ones first; for many, all are loaded."""
        if self._looked_up < _FEW:
            self._looked_up += 1
            at = self._text.find(f"\n{word}\n".encode("utf-8", "surrogatepass"))
            return None if at < 0 else self._text.count(b"\n", 0, at)
        return self._numbers.get(word)

    def knows(self, word: str) -> bool:
        return self._number(word) is not None

    def commonness(self, words: Sequence[str]) -> list[int]:
        """For each word a number that is higher the more common it is; 0 if it is unknown."""
        numbers = map(self._numbers.get, words)
        return [0 if number is None else self._count - number for number in numbers]

    def _grams(self, word: str) -> list[int]:
        return [self._count + number for number in grams(word, self.buckets)]

    def vectors(self, texts: Iterable[Sequence[str]]) -> "NDArray[np.float32]":
        """Unit vectors for texts given as words."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        sums: list[NDArray[np.float32]] = []
        batch = _Batch()
        for text in texts:
            self._add_text(batch, text)
            if len(batch.rows) > _BATCH:
                sums.append(self._sum(batch))
                batch = _Batch()
        if batch.starts or not sums:
            sums.append(self._sum(batch))
        joined = np.concatenate(sums)
        return joined / np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-9)

    def _add_text(self, batch: "_Batch", text: Sequence[str]) -> None:
        batch.starts.append(len(batch.rows))
        for word, count in Counter(text).items():
            weight = 1 + math.log(count)
            row = self._number(word)
            if row is not None:
                batch.rows.append(row)
                batch.weights.append(weight)
            else:
                pieces = self._oov(word)
                batch.rows.extend(pieces)
                batch.weights.extend([weight / len(pieces)] * len(pieces))
        if batch.starts[-1] == len(batch.rows):  # a text without words: any row, with weight zero
            batch.rows.append(0)
            batch.weights.append(0.0)

    def _sum(self, batch: "_Batch") -> "NDArray[np.float32]":
        """The weighted sum of each text's rows."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        at = np.asarray(batch.rows, np.int64)
        rows = self._rows[at].astype(np.float32)
        rows *= (self._scales[at] * np.asarray(batch.weights, np.float32))[:, None]
        return np.add.reduceat(rows, batch.starts, axis=0) if batch.starts else rows

    def encode(self, text: str) -> "NDArray[np.float32]":
        return self.vectors([words(text)])[0]


@cache
def packaged_table() -> Table:
    """The table that comes with Wicket, memory-mapped: a process reads only the few rows that it needs."""
    with Path(__file__).with_name("table.bin").open("rb") as file:
        return Table(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
