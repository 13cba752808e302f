"""The transformer that is trained, in torch, and how an earlier one is read. Knows no data."""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as nn
from packed import unpack

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from wicket_mcp.search.encoder import Encoder

LONGEST = 64
VECTOR = 256


class Student(torch.nn.Module):
    """A transformer with the norms' gains in its matrices: root-mean-square norms, no biases, squared ReLU.

    Tools go through all layers. A query may leave early, after one of the layers that `exits` names: it is short, and
    somebody waits for it.
    """

    def __init__(self, pieces: int, width: int, layers: int, heads: int, inner: int, exits: list[int]) -> None:
        super().__init__()
        self.heads = heads
        self.exits = exits
        self.embeddings = torch.nn.Parameter(torch.randn(pieces, width) * 0.3)
        self.positions = torch.nn.Parameter(torch.randn(LONGEST, width) * 0.05)

        def matrix(rows: int, columns: int, scale: float = 1.0) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(rows, columns) * scale / math.sqrt(rows))

        deep = 1 / math.sqrt(2 * layers)
        self.attend = torch.nn.ParameterList([matrix(width, 3 * width) for _ in range(layers)])
        self.mix = torch.nn.ParameterList([matrix(width, width, deep) for _ in range(layers)])
        self.up = torch.nn.ParameterList([matrix(width, inner) for _ in range(layers)])
        self.down = torch.nn.ParameterList([matrix(inner, width, deep) for _ in range(layers)])
        self.output = matrix(width, VECTOR)
        self.early = torch.nn.ParameterList([matrix(width, VECTOR) for _ in exits])
        self.judge = torch.nn.ParameterList([matrix(width, VECTOR) for _ in range(1 + len(exits))])
        self.slope, self.height = (torch.nn.Parameter(torch.tensor(value)) for value in (20.0, -10.0))

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, drop: float = 0.0) -> torch.Tensor:
        count, length = ids.shape
        width = self.embeddings.shape[1]
        here = torch.arange(length, device=ids.device)[None] < lengths[:, None]
        rows = nn.embedding(ids, self.embeddings) + self.positions[:length]
        rows = nn.dropout(rows, drop, self.training)
        mask = here[:, None, None, :]

        def finish(output: torch.Tensor, judge: torch.Tensor) -> torch.Tensor:
            mean = (norm(rows) * here[:, :, None]).sum(1) / lengths[:, None]
            both = (mean @ output).float(), (mean @ judge).float()
            return torch.cat([nn.normalize(vectors, dim=1) for vectors in both], 1)

        found: list[torch.Tensor] = []
        layers = zip(self.attend, self.mix, self.up, self.down, strict=True)
        for number, (attend, mix, up, down) in enumerate(layers):
            if number in self.exits:
                at = self.exits.index(number)
                found.append(finish(self.early[at], self.judge[1 + at]))
            query, key, value = (norm(rows) @ attend).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = nn.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            rows = rows + nn.dropout(mixed.transpose(1, 2).reshape(count, length, width) @ mix, drop, self.training)
            rows = rows + nn.dropout(nn.relu(norm(rows) @ up).square() @ down, drop, self.training)
        return torch.stack([finish(self.output, self.judge[0]), *found])


def norm(rows: torch.Tensor) -> torch.Tensor:
    return nn.rms_norm(rows, rows.shape[-1:], None, 1e-6)


def begin_with(path: Path) -> dict[str, torch.Tensor]:
    """What an earlier run ended with: its state, or its encoder.bin."""
    if path.suffix != ".bin":
        return torch.load(path)
    return {name: torch.from_numpy(rows) for name, rows in unpack(Encoder(path.read_bytes())).items()}
