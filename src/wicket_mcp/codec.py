"""JSON on the wire: bytes in, plain objects out, and back.

Faithful where it is easy to lose something: integers of any size stay exact, a lone surrogate escape or an
invalid UTF-8 byte costs that character and not the message. `decode` raises ValueError and nothing else.
"""

import json
from typing import Any

import msgspec

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def decode(data: bytes | str) -> Any:
    """Parse one JSON document. Raises ValueError (bad JSON, nested too deeply)."""
    try:
        return _decoder.decode(data)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The slow, lenient way: what a Node server writes for half an emoji, or a latin-1 byte in a log line.
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        try:
            return json.loads(text, parse_constant=_refuse)  # noqa: TID251  (the one place)
        except RecursionError:
            raise ValueError("JSON is nested too deeply") from None


def encode(value: Any) -> bytes:
    """Serialise compactly to UTF-8."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(value, separators=(",", ":")).encode("ascii")  # noqa: TID251


def pretty(value: Any) -> str:
    """Indented JSON for people."""
    return msgspec.json.format(encode(value), indent=2).decode("utf-8")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
