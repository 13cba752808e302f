"""Lay an encoder between two others that come from one training: every number is a weighted mean of theirs.

    python tools/encoder/blend.py OLD NEW SHARE OUT

What the newer one learnt is kept nearly whole, and what it forgot comes back. SHARE is that of the newer one.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.search.encoder import Encoder, write_encoder


def matrices(encoder: Encoder) -> list[Any]:
    """As `write_encoder` takes them."""
    values, scales = encoder._embeddings
    layers: list[list[np.ndarray]] = []
    for attend, *rest in encoder._layers:
        width = len(attend)
        attend[:, :width] *= (width / encoder._heads) ** 0.5
        layers.append([attend, *rest])
    return [values.astype(np.float32) * scales[:, None], encoder._positions, layers, encoder._output, encoder._leave]


def blend(old: Any, new: Any, share: float) -> Any:
    if isinstance(old, list):
        return [blend(a, b, share) for a, b in zip(old, new, strict=True)]
    return (1 - share) * old + share * new


def main() -> None:
    old, new, share, out = sys.argv[1:]
    first = Encoder(Path(old).read_bytes())
    *parts, leave = blend(matrices(first), matrices(Encoder(Path(new).read_bytes())), float(share))
    numbers, scores = first.tokenizer._numbers, np.array(first.tokenizer._scores, np.float32)
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    file = write_encoder(pieces, scores, *parts, (first._early, leave), first._heads)
    Path(out).write_bytes(file)


if __name__ == "__main__":
    main()
