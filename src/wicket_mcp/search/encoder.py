"""The sentence encoder that comes with Wicket: the meaning of a request or a tool, as a vector.

A small transformer, run with numpy: word pieces, a few layers of attention, the mean of the output. Tools go through
all layers, once; a query, which must be quick, uses an earlier exit. It was trained by us from scratch
(`tools/encoder`) and is read from the package; no download, no runtime. The SHA-256 of the file is checked when it is
loaded. Pure CPU: call it off the event loop. Knows nothing about tools or ranking.
"""

import hashlib
import mmap
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.lanes import rest_between
from wicket_mcp.search.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Layer = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]

DIGEST = "e7e5e8f49e70509ca8223855c34580b5eab352c33f54659c621191c0aa93aa38"
LONGEST = 64
"""Word pieces of a text that are read."""
_HEAD = struct.Struct("<8s9I")
"""Magic; numbers of pieces, width, layers, layers for queries, heads, inner width, positions, width of vectors, and
bytes of the vocabulary."""
_MAGIC = b"WKENCOD2"
_BATCH = 512
"""Pieces that go through a layer together: few enough for the CPU's cache."""
_FEW_ROWS = 32
"""Rows up to which a product is computed in blocks of columns."""
_BLOCK = 64
_EPSILON = 1e-6


def write_encoder(
    pieces: Sequence[str],
    scores: "NDArray[np.float32]",
    embeddings: "NDArray[np.float32]",
    positions: "NDArray[np.float32]",
    layers: "Sequence[Sequence[NDArray[np.float32]]]",
    output: "NDArray[np.float32]",
    early: "tuple[int, NDArray[np.float32]]",
    heads: int,
) -> bytes:
    """The file format: head, scores of pieces, then matrices as bytes with one scale per row, then the pieces."""
    text = "\n".join(pieces).encode()
    after, leave = early
    size = (len(pieces), embeddings.shape[1], len(layers), after, heads, layers[0][2].shape[1], len(positions))
    head = _HEAD.pack(_MAGIC, *size, output.shape[1], len(text))
    matrices = [embeddings, positions, *(matrix for layer in layers for matrix in layer), output, leave]
    return b"".join((head, scores.astype("<f4").tobytes(), *(_shrink(matrix) for matrix in matrices), text))


def _shrink(matrix: "NDArray[np.float32]") -> bytes:
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (only a process that searches pays for numpy)

    scales = np.maximum(np.abs(matrix).max(1), 1e-9) / 127
    return scales.astype("<f4").tobytes() + np.rint(matrix / scales[:, None]).astype(np.int8).tobytes()


class Encoder:
    """Unit vectors for texts; texts with a similar meaning have similar vectors."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        magic, pieces, width, layers, self._early, self._heads, inner, *sizes = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("not an encoder")
        positions, self.width, length = sizes
        self._at = _HEAD.size
        self._data = data
        scores = np.frombuffer(data, "<f4", pieces, self._at).tolist()
        self._at += 4 * pieces
        self._embeddings = self._rows(pieces, width)
        self._positions = self._matrix(positions, width)
        shapes = ((width, 3 * width), (width, width), (width, inner), (inner, width))
        self._layers: list[Layer] = []
        for _ in range(layers):
            attend, mix, up, down = (self._matrix(*shape) for shape in shapes)
            attend[:, :width] /= np.float32((width / self._heads) ** 0.5)
            self._layers.append((attend, mix, up, down))
        self._output, self._leave = (self._matrix(width, self.width) for _ in range(2))
        vocabulary = data[len(data) - length :].decode().split("\n")
        self.tokenizer = Tokenizer(vocabulary, scores)

    def _rows(self, rows: int, columns: int) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        scales = np.frombuffer(self._data, "<f4", rows, self._at)
        values = np.frombuffer(self._data, np.int8, rows * columns, self._at + 4 * rows).reshape(rows, columns)
        self._at += (4 + columns) * rows
        return values, scales

    def _matrix(self, rows: int, columns: int) -> "NDArray[np.float32]":
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        values, scales = self._rows(rows, columns)
        return values.astype(np.float32) * scales[:, None]

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The meanings of tools: one row per text."""
        return self._encode(texts, len(self._layers), self._output)

    def encode_queries(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The meanings of queries, to be compared with tools: one row per text."""
        return self._encode(texts, self._early, self._leave)

    def _encode(self, texts: Sequence[str], layers: int, output: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """Texts go in batches that fit the cache; the result is the same as for each text alone."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        vectors = np.empty((len(texts), self.width), np.float32)
        batch: list[tuple[int, list[int]]] = []
        size = 0
        for place, text in enumerate(rest_between(texts)):
            numbers = self.tokenizer.encode(text, LONGEST)
            if batch and size + len(numbers) > _BATCH:
                vectors[[at for at, _ in batch]] = self._forward([ids for _, ids in batch], layers) @ output
                batch, size = [], 0
            batch.append((place, numbers))
            size += len(numbers)
        if batch:
            vectors[[at for at, _ in batch]] = self._forward([ids for _, ids in batch], layers) @ output
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _EPSILON)

    def _forward(self, texts: list[list[int]], layers: int) -> "NDArray[np.float32]":
        """The sum of each text's piece vectors after this many layers."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        values, scales = self._embeddings
        numbers = np.concatenate([np.asarray(ids, np.int64) for ids in texts])
        rows = values[numbers].astype(np.float32) * scales[numbers, None]
        rows += np.concatenate([self._positions[: len(ids)] for ids in texts])
        ends = np.cumsum([len(ids) for ids in texts]).tolist()
        spans = [(end - len(ids), end) for end, ids in zip(ends, texts, strict=True)]
        for attend, mix, up, down in self._layers[:layers]:
            rows += multiply(self._attend(multiply(_normalise(rows), attend), spans), mix)
            inner = multiply(_normalise(rows), up)
            inner *= np.maximum(inner, 0)
            rows += multiply(inner, down)
        return np.add.reduceat(_normalise(rows), [start for start, _ in spans], axis=0)

    def _attend(self, mixed: "NDArray[np.float32]", spans: list[tuple[int, int]]) -> "NDArray[np.float32]":
        """Every piece attends to the pieces of its own text. The scale of the products is in the query weights."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        width = mixed.shape[1] // 3
        outputs = np.empty((len(mixed), width), np.float32)
        for start, end in spans:
            shape = (end - start, 3, self._heads, width // self._heads)
            query, key, value = mixed[start:end].reshape(shape).transpose(1, 2, 0, 3)
            share = query @ key.transpose(0, 2, 1)
            share -= share.max(2, keepdims=True)
            np.exp(share, out=share)
            share /= share.sum(2, keepdims=True)
            outputs[start:end] = (share @ value).transpose(1, 0, 2).reshape(end - start, width)
        return outputs


def multiply(rows: "NDArray[np.float32]", matrix: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """The product. For the few rows of a query in blocks of columns: for a product of that size OpenBLAS does not first
    copy the matrix, which takes longer than the product itself."""
    if len(rows) > _FEW_ROWS:
        return rows @ matrix
    blocks = rows @ matrix.reshape(len(matrix), -1, _BLOCK).transpose(1, 0, 2)
    return blocks.transpose(1, 0, 2).reshape(len(rows), -1)


def _normalise(rows: "NDArray[np.float32]") -> "NDArray[np.float32]":
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    squares = np.einsum("ij,ij->i", rows, rows)
    squares *= np.float32(1 / rows.shape[1])
    squares += np.float32(_EPSILON)
    return rows / np.sqrt(squares, out=squares)[:, None]


class PackagedEncoder:
    """Implements Model with the encoder that comes with Wicket. The file is read for the first text."""

    width = 256
    checksum = int(DIGEST[:8], 16)

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        return packaged_encoder().encode(texts)

    def encode_queries(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        return packaged_encoder().encode_queries(texts)


PACKAGED = PackagedEncoder()


@cache
def packaged_encoder() -> Encoder:
    return read_encoder(Path(__file__).with_name("encoder.bin"))


def read_encoder(path: Path) -> Encoder:
    """The encoder in a file. Memory-mapped: only the vectors of pieces that occur are read."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hashlib.sha256(data).hexdigest() != DIGEST:
        raise ValueError(f"{path} is not the file that belongs to this version of Wicket: install wicket-mcp again")
    return Encoder(data)
