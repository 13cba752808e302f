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

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, drop: float = 0.0) -> torch.Tensor:
        count, length = ids.shape
        here = torch.arange(length, device=ids.device)[None] < lengths[:, None]
        rows = nn.embedding(ids, self.embeddings) + self.positions[:length]
        rows = nn.dropout(rows, drop, self.training)

        def finish(output: torch.Tensor) -> torch.Tensor:
            mean = (norm(rows) * here[:, :, None]).sum(1) / lengths[:, None]
            return nn.normalize((mean @ output).float(), dim=1)

        found: list[torch.Tensor] = []
        layers = zip(self.attend, self.mix, self.up, self.down, strict=True)
        for number, (attend, mix, up, down) in enumerate(layers):
            if number in self.exits:
                found.append(finish(self.early[self.exits.index(number)]))
            query, key, value = (norm(rows) @ attend).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            rows = rows + nn.dropout(attention(query, key, value, here) @ mix, drop, self.training)
            rows = rows + nn.dropout(nn.relu(norm(rows) @ up).square() @ down, drop, self.training)
        return torch.stack([finish(self.output), *found])


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """Written out: the fused kernels prepare themselves anew for every size of batch, which takes ten times as long."""
    hidden = torch.where(here, 0.0, -1e4)[:, None, None].to(query.dtype)
    share = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + hidden).softmax(-1, dtype=torch.float32)
    mixed = share.to(value.dtype) @ value
    return mixed.transpose(1, 2).flatten(2)


def norm(rows: torch.Tensor) -> torch.Tensor:
    return nn.rms_norm(rows, rows.shape[-1:], None, 1e-6)


def begin_with(path: Path) -> dict[str, torch.Tensor]:
    """What an earlier run ended with: its state, or its encoder.bin."""
    if path.suffix != ".bin":
        return torch.load(path)
    return {name: torch.from_numpy(rows) for name, rows in unpack(Encoder(path.read_bytes())).items()}
