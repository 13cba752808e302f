"""The user's own sentence encoder instead of Wicket's: `search.model`.

Any sentence-transformers model in ONNX form: a folder with `tokenizer.json` and `model.onnx` (or `onnx/model.onnx`). A
name like `org/name` is looked up among the downloads of Hugging Face's tools; nothing is downloaded here. `find_model`
makes the cheap checks when a gateway starts; `UserModel` loads onnxruntime at the first search.
"""

import os
import zlib
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wicket_mcp.codec import decode
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_PACKAGES = ("onnxruntime", "tokenizers")
_LONGEST = 256
"""Word pieces of a text that are read, if the model does not set a limit."""
_BATCH = 8


def find_model(name: str, base_dir: Path) -> Path:
    """The folder of a model. Raises ConfigError, which says what is missing."""
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        hint = "pip install 'wicket-mcp[onnx]'"
        raise ConfigError(f"a model of your own needs {' and '.join(missing)}", key="search.model", hint=hint)
    folders = [base_dir / Path(name).expanduser(), *_find_downloads(name)]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise ConfigError(
            f"there is no model '{name}'", key="search.model", hint="Give the path of a folder with a model in it."
        )
    if not (folder / "tokenizer.json").is_file() or _graph(folder) is None:
        raise ConfigError(
            f"{folder} is not a sentence-transformers model in ONNX form",
            key="search.model",
            hint="It needs tokenizer.json and model.onnx, or onnx/model.onnx.",
        )
    return folder


def _find_downloads(name: str) -> list[Path]:
    """The folders of Hugging Face's tools for this model, newest first."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    snapshots = home / "hub" / f"models--{name.replace('/', '--')}" / "snapshots"
    return sorted(snapshots.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)


def _graph(folder: Path) -> Path | None:
    return next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)


def _unusable(file: str, problem: Exception) -> ConfigError:
    return ConfigError(
        f"{file} cannot be used: {problem}", key="search.model", hint="Export the model again, or leave the option out."
    )


class UserModel:
    """Implements Model. Everything is read on first use, which should be on the search thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def checksum(self) -> int:
        """Identifies this model: vectors of another model are computed again."""
        return self._checksum

    @property
    def width(self) -> int:
        return self._width

    @cached_property
    def _checksum(self) -> int:
        graph = _graph(self.folder)
        state = [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in [graph] if path]
        return zlib.crc32("\n".join((str(self.folder.resolve()), *state)).encode("utf-8", "surrogatepass"))

    @cached_property
    def _width(self) -> int:
        return self.encode(["width"]).shape[1]

    @cached_property
    def _session(self) -> Any:
        import onnxruntime  # noqa: PLC0415  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

        options: Any = onnxruntime.SessionOptions()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        options.intra_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        graph = str(_graph(self.folder))
        try:
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except Exception as problem:  # noqa: BLE001  (onnxruntime's errors have no base of their own)
            raise _unusable(graph, problem) from None

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer  # noqa: PLC0415  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        file = str(self.folder / "tokenizer.json")
        try:
            tokenizer: Any = Tokenizer.from_file(file)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except Exception as problem:  # noqa: BLE001  (it raises plain Exception)
            raise _unusable(file, problem) from None
        tokenizer.enable_truncation(int(self._setting("sentence_bert_config.json", "max_seq_length") or _LONGEST))
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _first_token(self) -> bool:
        """Whether the model uses the vector of the first token instead of the mean of all."""
        return bool(self._setting("1_Pooling/config.json", "pooling_mode_cls_token"))

    def _setting(self, file: str, name: str) -> Any:
        path = self.folder / file
        return decode(path.read_bytes()).get(name) if path.is_file() else None

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        """Unit vectors."""
        from wicket_mcp.search.numeric import np  # noqa: PLC0415  (only a process that searches pays for numpy)

        vectors: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), _BATCH):
            rows = self._tokenizer.encode_batch(texts[start : start + _BATCH])
            mask = np.array([row.attention_mask for row in rows], np.int64)
            inputs = {"input_ids": np.array([row.ids for row in rows], np.int64), "attention_mask": mask}
            inputs["token_type_ids"] = np.zeros_like(mask)
            input_names = {entry.name for entry in self._session.get_inputs()}
            hidden = self._session.run(None, {name: value for name, value in inputs.items() if name in input_names})[0]
            if hidden.ndim == 2:  # the graph does the pooling
                vectors.append(hidden.astype(np.float32))
            elif self._first_token:
                vectors.append(hidden[:, 0].astype(np.float32))
            else:
                weights = mask[..., None].astype(np.float32)
                vectors.append((hidden * weights).sum(1) / np.maximum(weights.sum(1), 1e-9))
        joined = np.concatenate(vectors)
        return joined / np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-9)

    encode_queries = encode
