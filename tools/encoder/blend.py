"""Lay an encoder between two others that come from one training: every number is a weighted mean of theirs.

    python tools/encoder/blend.py OLD NEW SHARE OUT

What the newer one learnt is kept nearly whole, and what it forgot comes back. SHARE is that of the newer one.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from packed import pack, unpack

from wicket_mcp.search.encoder import Encoder


def main() -> None:
    old, new, share, out = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
    first = Encoder(Path(old).read_bytes())
    newer = unpack(Encoder(Path(new).read_bytes()))
    state = {name: (1 - share) * rows + share * newer[name] for name, rows in unpack(first).items()}
    numbers, scores = first.tokenizer._numbers, np.array(first.tokenizer._scores, np.float32)
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    Path(out).write_bytes(pack(pieces, scores, state, first._heads, first._early, state["early.0"]))


if __name__ == "__main__":
    main()
