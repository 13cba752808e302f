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

from wicket_mcp.pauses import rest_between
from wicket_mcp.search.tokenizer import Tokenizer
from wicket_mcp.search.transformer import Shrunk, normalise, shrink, transform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wicket_mcp.search.transformer import Layer

DIGEST = "f6c3336b752dae7018c3724b1a39834db5a72979a19227298c3635e294c0d615"
LONGEST = 64
"""Word pieces of a text that are read."""
_HEAD = struct.Struct("<8s9I")
"""Magic; numbers of pieces, width, layers, layers for queries, heads, inner width, positions, width of vectors, and
bytes of the vocabulary."""
_MAGIC = b"WKENCOD2"
_BATCH = 512
"""Pieces that go through a layer together: few enough for the CPU's cache."""
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
    return b"".join((head, scores.astype("<f4").tobytes(), *(shrink(matrix) for matrix in matrices), text))


class Encoder:
    """Unit vectors for texts; texts with a similar meaning have similar vectors."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        magic, pieces, width, layers, self._early, self._heads, inner, *sizes = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("not an encoder")
        positions, self.width, length = sizes
        scores = np.frombuffer(data, "<f4", pieces, _HEAD.size).tolist()
        matrices = Shrunk(data, _HEAD.size + 4 * pieces)
        self._embeddings = matrices.rows(pieces, width)
        self._positions = matrices.matrix(positions, width)
        self._data, self._later, self._sizes = data, layers - self._early, (width, inner, self._heads)
        self._first: list[Layer] = [matrices.layer(*self._sizes) for _ in range(self._early)]
        self._at = matrices.at
        matrices.skip_layers(self._later, width, inner)
        self._output, self._leave = (matrices.matrix(width, self.width) for _ in range(2))
        vocabulary = data[len(data) - length :].decode().split("\n")
        self.tokenizer = Tokenizer(vocabulary, scores)

    def look_up(self, numbers: "NDArray[np.int64]") -> "NDArray[np.float32]":
        """The vectors of word pieces, by their numbers, before any layer."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        values, scales = self._embeddings
        return values[numbers].astype(np.float32) * scales[numbers, None]

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The meanings of tools: one row per text."""
        return self._encode(texts, self.layers(), self._output)

    def encode_queries(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The meanings of queries, to be compared with tools: one row per text."""
        return self._encode(texts, self._first, self._leave)

    def layers(self) -> "list[Layer]":
        """All of them. A query needs the first ones only; the others take 16 MB, so nobody keeps them."""
        matrices = Shrunk(self._data, self._at)
        return [*self._first, *(matrices.layer(*self._sizes) for _ in range(self._later))]

    def _encode(
        self, texts: Sequence[str], layers: "Sequence[Layer]", output: "NDArray[np.float32]"
    ) -> "NDArray[np.float32]":
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

    def _forward(self, texts: list[list[int]], layers: "Sequence[Layer]") -> "NDArray[np.float32]":
        """The sum of each text's piece vectors after these layers."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        lengths = [len(ids) for ids in texts]
        rows = self.look_up(np.concatenate([np.asarray(ids, np.int64) for ids in texts]))
        rows += np.concatenate([self._positions[:length] for length in lengths])
        rows = transform(rows, lengths, layers, self._heads)
        return np.add.reduceat(normalise(rows), np.cumsum([0, *lengths[:-1]]), axis=0)


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
