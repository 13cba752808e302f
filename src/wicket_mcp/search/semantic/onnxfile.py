"""Just enough of the ONNX file format to write a graph: nodes, tensors, inputs and outputs.

The format is protocol buffers; the field numbers below are those of onnx.proto. Writing them by hand spares the
extra a second large dependency.
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wicket_mcp.search.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOAT, INT64 = 1, 7
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}
_OPSET, _IR = 17, 8


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Graph:
    """Collects nodes and tensors; `node` returns the name of what it computes."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
        self._count = 0

    def node(
        self, kind: str, *inputs: str, outputs: int = 1, name: str = "", **attributes: int | float | Sequence[int]
    ) -> str:
        """Add an operation. With several outputs, their names are `result:0`, `result:1`, …"""
        self._count += 1
        result = name or f"n{self._count}"
        names = [result] if outputs == 1 else [f"{result}:{i}" for i in range(outputs)]
        self._nodes.append(
            b"".join(_bytes(1, given) for given in inputs)
            + b"".join(_bytes(2, made) for made in names)
            + _bytes(4, kind)
            + b"".join(_bytes(5, _attribute(key, value)) for key, value in attributes.items())
        )
        return result

    def tensor(self, values: "NDArray[np.generic]") -> str:
        self._count += 1
        name = f"t{self._count}"
        shape = b"".join(_number(1, size) for size in values.shape)
        kind = _number(2, _TYPES[values.dtype.name])
        self._tensors.append(shape + kind + _bytes(8, name) + _bytes(9, np.ascontiguousarray(values).tobytes()))
        return name

    def model(self, inputs: dict[str, tuple[int, int]], outputs: dict[str, tuple[int, int]]) -> bytes:
        """The file. Inputs and outputs are name: (element type, number of dimensions)."""
        graph = b"".join(_bytes(1, node) for node in self._nodes) + _bytes(2, "graph")
        graph += b"".join(_bytes(5, tensor) for tensor in self._tensors)
        graph += b"".join(_bytes(11, _value(name, *shape)) for name, shape in inputs.items())
        graph += b"".join(_bytes(12, _value(name, *shape)) for name, shape in outputs.items())
        return _number(1, _IR) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, _OPSET))


def _attribute(name: str, value: int | float | Sequence[int]) -> bytes:
    head = _bytes(1, name)
    if isinstance(value, float):
        return head + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return head + _number(3, value) + _number(20, 2)
    return head + b"".join(_number(8, item) for item in value) + _number(20, 7)


def _value(name: str, kind: int, dimensions: int) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, f"{name}_{i}")) for i in range(dimensions))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))
