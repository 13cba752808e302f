"""Layers of attention over word pieces, computed with numpy, and how their matrices are kept in a file.

Texts go through together, row after row; each attends to its own rows only. Knows no vocabulary and no meaning.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

    import numpy as np
    from numpy.typing import NDArray

    Layer = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
    """Attention, what it is mixed by, then up to the inner width and down again; each in blocks."""

_BLOCK = 64
_EPSILON = 1e-6


def shrink(matrix: "NDArray[np.float32]") -> bytes:
    """A matrix as bytes with one scale per row."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (only a process that searches pays for numpy)

    scales = np.maximum(np.abs(matrix).max(1), 1e-9) / 127
    return scales.astype("<f4").tobytes() + np.rint(matrix / scales[:, None]).astype(np.int8).tobytes()


class Shrunk:
    """Reads what `shrink` wrote, one matrix after the other."""

    def __init__(self, data: "bytes | mmap.mmap", at: int) -> None:
        self.at = at
        self._data = data

    def rows(self, rows: int, columns: int) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
        """The next matrix as it is kept: whoever needs a few rows of it reads no others."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        scales = np.frombuffer(self._data, "<f4", rows, self.at)
        values = np.frombuffer(self._data, np.int8, rows * columns, self.at + 4 * rows).reshape(rows, columns)
        self.at += (4 + columns) * rows
        return values, scales

    def matrix(self, rows: int, columns: int) -> "NDArray[np.float32]":
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        values, scales = self.rows(rows, columns)
        return values.astype(np.float32) * scales[:, None]

    def blocks(self, rows: int, columns: int) -> "NDArray[np.float32]":
        return in_blocks(self.matrix(rows, columns))

    def skip_layers(self, count: int, width: int, inner: int) -> None:
        shapes = ((width, 3 * width), (width, width), (width, inner), (inner, width))
        self.at += count * sum((4 + columns) * rows for rows, columns in shapes)

    def layer(self, width: int, inner: int, heads: int) -> "Layer":
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

        attend, mix = self.matrix(width, 3 * width), self.blocks(width, width)
        attend[:, :width] /= np.float32((width / heads) ** 0.5)
        return in_blocks(attend), mix, self.blocks(width, inner), self.blocks(inner, width)


def transform(
    rows: "NDArray[np.float32]", lengths: Sequence[int], layers: "Sequence[Layer]", heads: int
) -> "NDArray[np.float32]":
    """The rows of texts of these lengths after the layers, in place."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    ends = np.cumsum(lengths).tolist()
    spans = [(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    for attend, mix, up, down in layers:
        rows += multiply(_attend(multiply(normalise(rows), attend), spans, heads), mix)
        rows += multiply(square(multiply(normalise(rows), up)), down)
    return rows


def _attend(mixed: "NDArray[np.float32]", spans: list[tuple[int, int]], heads: int) -> "NDArray[np.float32]":
    """Every piece attends to the pieces of its own text. The scale of the products is in the query weights."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    width = mixed.shape[1] // 3
    outputs = np.empty((len(mixed), width), np.float32)
    for start, end in spans:
        shape = (end - start, 3, heads, width // heads)
        query, key, value = mixed[start:end].reshape(shape).transpose(1, 2, 0, 3)
        share = soften(query @ key.transpose(0, 2, 1))
        outputs[start:end] = (share @ value).transpose(1, 0, 2).reshape(end - start, width)
    return outputs


def soften(products: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Shares that add up to one along the last axis, in place."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    products -= products.max(-1, keepdims=True)
    np.exp(products, out=products)
    products /= products.sum(-1, keepdims=True)
    return products


def square(inner: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """The squares of what is positive, in place."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    inner *= np.maximum(inner, 0)
    return inner


def in_blocks(matrix: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """A matrix cut into blocks of columns, one after the other. The few rows of a query are multiplied with them in two
    thirds of the time: OpenBLAS copies a larger matrix first, and reads columns of one from all over the memory."""
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    return np.ascontiguousarray(matrix.reshape(len(matrix), -1, _BLOCK).transpose(1, 0, 2))


def multiply(rows: "NDArray[np.float32]", blocks: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """The product with a matrix that is kept in blocks."""
    return join_blocks(rows @ blocks)


def join_blocks(blocks: "NDArray[np.float32]") -> "NDArray[np.float32]":
    return blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)


def normalise(rows: "NDArray[np.float32]") -> "NDArray[np.float32]":
    from wicket_mcp.search.numeric import np  # noqa: PLC0415  (as above)

    squares = np.einsum("ij,ij->i", rows, rows)
    squares *= np.float32(1 / rows.shape[1])
    squares += np.float32(_EPSILON)
    return rows / np.sqrt(squares, out=squares)[:, None]
