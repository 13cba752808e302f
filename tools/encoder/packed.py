"""An encoder's file as named matrices, and back."""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.search.encoder import Encoder, write_encoder
from wicket_mcp.search.transformer import join_blocks

PARTS = ("attend", "mix", "up", "down")
Matrices = Mapping[str, np.ndarray]


def unpack(file: Encoder) -> dict[str, np.ndarray]:
    """Its matrices as training names them; `early.0` is the exit of queries."""
    values, scales = file._embeddings
    state = {"embeddings": values.astype(np.float32) * scales[:, None], "positions": file._positions}
    for number, layer in enumerate(file.layers()):
        attend, *rest = (join_blocks(blocks) for blocks in layer)
        attend[:, : len(attend)] *= math.sqrt(len(attend) / file._heads)
        state |= {f"{part}.{number}": rows for part, rows in zip(PARTS, (attend, *rest), strict=True)}
    return state | {"output": file._output, "early.0": file._leave}


def pack(
    pieces: Sequence[str], scores: np.ndarray, state: Matrices, heads: int, after: int, leave: np.ndarray
) -> bytes:
    """The file; queries leave after so many layers, by `leave`."""
    count = sum(name.startswith("attend.") for name in state)
    layers = [[state[f"{part}.{number}"] for part in PARTS] for number in range(count)]
    rows = (state["embeddings"], state["positions"], layers, state["output"])
    return write_encoder(pieces, scores, *rows, (after, leave), heads)
