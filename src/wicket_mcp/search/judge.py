"""Reads a request and a tool's text side by side, and says whether the tool does what the request asks.

The encoder turns each of them into one vector, which tells what they are about, but hardly "delete" from "create" or a
page from a space. This network sees them piece by piece: the request's pieces attend to those of the tool. That takes
too long for every tool, so it reads the few best of an answer that is in doubt; the tool's half of the work is done
when it is indexed. Trained by us (`tools/encoder/judge.py`) with the encoder's vocabulary; the SHA-256 of its file is
checked when it is loaded. Pure CPU: call it off the event loop.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.pauses import rest_between
from wicket_mcp.search.encoder import Encoder, packaged_encoder
from wicket_mcp.search.numeric import np
from wicket_mcp.search.transformer import Shrunk, multiply, normalise, shrink, soften, square, transform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wicket_mcp.search.transformer import Layer

    Joint = tuple[
        NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]
    ]
    """As a layer of the encoder, with keys and values of the tool after the attention's."""

DIGEST = "ba123a27653aecc9bc29a844fc553dca143f682b74f4ed320d05becd879657ca"
CHECKSUM = int(DIGEST[8:16], 16)
"""Identifies it: what another one read of tools cannot be used."""
WIDTH = 128
"""Numbers for each piece of a text that was read."""
LONGEST_REQUEST, LONGEST_TOOL = 32, 40
"""Word pieces that are read."""
_HEAD = struct.Struct("<8s8I")
"""Magic; width of the encoder and of what is compared, their inner widths, heads, positions; layers for each text alone
and for both."""
_MAGIC = b"WKJUDGE1"
_NOWHERE = -1e4


class Judge:
    def __init__(self, data: bytes, encoder: Encoder) -> None:
        magic, width, narrow, inner, narrow_inner, self._heads, positions, single, joint = _HEAD.unpack_from(data)
        if (magic, narrow) != (_MAGIC, WIDTH):
            raise ValueError("not a judge")
        self._encoder = encoder
        matrices = Shrunk(data, _HEAD.size)
        self._positions = matrices.matrix(positions, width)
        self._alone: list[Layer] = [matrices.layer(width, inner, self._heads) for _ in range(single)]
        self._request, self._tool = (matrices.blocks(width, narrow) for _ in range(2))
        self._both: list[Joint] = []
        for _ in range(joint):
            keys = matrices.blocks(narrow, 2 * narrow)
            attend, mix, up, down = matrices.layer(narrow, narrow_inner, self._heads)
            self._both.append((attend, keys, mix, up, down))
        self._hidden = matrices.matrix(2 * narrow, narrow)
        last = np.frombuffer(data, "<f4", narrow + 1, matrices.at)
        self._last, self._bias = last[:-1], last[-1]

    def read_request(self, text: str) -> "NDArray[np.float32]":
        """A row for each piece of the request."""
        return multiply(self._read(text, LONGEST_REQUEST), self._request)

    def read_tool(self, text: str) -> "NDArray[np.int8]":
        """A row for each piece of the tool's text. Only the proportions within a row matter."""
        rows = multiply(self._read(text, LONGEST_TOOL), self._tool)
        rows *= 127 / np.abs(rows).max(1, keepdims=True)
        return np.rint(rows).astype(np.int8)

    def read_tools(self, texts: Sequence[str]) -> "list[NDArray[np.int8]]":
        return [self.read_tool(text) for text in rest_between(texts)]

    def _read(self, text: str, longest: int) -> "NDArray[np.float32]":
        numbers = self._encoder.tokenizer.encode(text, longest)
        rows = self._encoder.look_up(np.asarray(numbers, np.int64)) + self._positions[: len(numbers)]
        return normalise(transform(rows, [len(numbers)], self._alone, self._heads))

    def weigh(self, request: "NDArray[np.float32]", tools: "Sequence[NDArray[np.int8]]") -> "NDArray[np.float32]":
        """For each tool, by what was read of it: positive if it rather does what is asked, negative if not."""
        count, length = len(tools), len(request)
        longest = max(len(tool) for tool in tools)
        beside = np.zeros((count, longest, WIDTH), np.float32)
        hidden = np.zeros((count, 1, 1, length + longest), np.float32)
        for row, tool in enumerate(tools):
            beside[row, : len(tool)] = tool
            hidden[row, :, :, length + len(tool) :] = _NOWHERE
        beside = normalise(beside.reshape(count * longest, WIDTH))
        rows = np.tile(request, (count, 1))
        for attend, keys, mix, up, down in self._both:
            of_request = self._by_head(multiply(normalise(rows), attend), count, 3)
            of_tool = self._by_head(multiply(beside, keys), count, 2)
            key, value = (np.concatenate((of_request[1 + at], of_tool[at]), 2) for at in range(2))
            share = soften(of_request[0] @ key.transpose(0, 1, 3, 2) + hidden)
            rows += multiply((share @ value).transpose(0, 2, 1, 3).reshape(count * length, WIDTH), mix)
            rows += multiply(square(multiply(normalise(rows), up)), down)
        pieces = normalise(rows).reshape(count, length, WIDTH)
        seen = np.concatenate((pieces.mean(1), pieces.max(1)), 1)
        return np.maximum(seen @ self._hidden, 0) @ self._last + self._bias

    def _by_head(self, mixed: "NDArray[np.float32]", count: int, kinds: int) -> "NDArray[np.float32]":
        shape = (count, -1, kinds, self._heads, WIDTH // self._heads)
        return mixed.reshape(shape).transpose(2, 0, 3, 1, 4)


def write_judge(
    positions: "NDArray[np.float32]",
    single: "Sequence[Sequence[NDArray[np.float32]]]",
    narrowing: "Sequence[NDArray[np.float32]]",
    joint: "Sequence[Sequence[NDArray[np.float32]]]",
    judging: "tuple[NDArray[np.float32], NDArray[np.float32], float]",
    heads: int,
) -> bytes:
    """The file format: head, matrices as bytes with one scale per row, then the last row as it is.

    The layers are attention, mix, up and down; those for both have the tool's keys and values before them.
    """
    hidden, last, bias = judging
    width, narrow = narrowing[0].shape
    sizes = width, narrow, single[0][2].shape[1], joint[0][3].shape[1], heads, len(positions), len(single), len(joint)
    layers = [[matrix for layer in many for matrix in layer] for many in (single, joint)]
    matrices = [positions, *layers[0], *narrowing, *layers[1], hidden]
    end = np.append(last, np.float32(bias)).astype("<f4").tobytes()
    return b"".join((_HEAD.pack(_MAGIC, *sizes), *(shrink(matrix) for matrix in matrices), end))


@cache
def packaged_judge() -> Judge:
    return read_judge(Path(__file__).with_name("judge.bin"))


def read_judge(path: Path) -> Judge:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != DIGEST:
        raise ValueError(f"{path} is not the file that belongs to this version of Wicket: install wicket-mcp again")
    return Judge(data, packaged_encoder())
