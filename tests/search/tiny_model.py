"""A sentence-transformers model in ONNX form, made here: a table of word vectors, whose mean is the text's vector.

Written by hand in ONNX's wire format, so that the tests need nothing but what runs a model.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

_FLOAT, _INT64 = 1, 7


def write_model(folder: Path, vectors: Mapping[str, Sequence[float]], *, first_token: bool = False) -> Path:
    """A model that knows these words; any other has the vector of `[UNK]`."""
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(vectors)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()  # type: ignore[assignment]
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "model.onnx").write_bytes(_model(list(vectors.values())))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": first_token}))
    return folder


def _model(rows: list[Sequence[float]]) -> bytes:
    flat = [number for row in rows for number in row]
    table = b"".join((_number(1, len(rows)), _number(1, len(rows[0])), _number(2, _FLOAT), _text(8, "table")))
    table += _field(9, struct.pack(f"<{len(flat)}f", *flat))
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, "last_hidden_state") + _text(4, "Gather")
    graph = _field(1, node) + _text(2, "tiny") + _field(5, table)
    graph += _field(11, _value("input_ids", _INT64, 2)) + _field(12, _value("last_hidden_state", _FLOAT, 3))
    return _number(1, 8) + _field(7, graph) + _field(8, _text(1, "") + _number(2, 13))


def _value(name: str, kind: int, dimensions: int) -> bytes:
    shape = b"".join(_field(1, _text(2, f"{name}{at}")) for at in range(dimensions))
    return _text(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode())
