"""The content of a tool's result, for eyes, pipes and files."""

import base64
import binascii
import sys
from collections.abc import Iterator
from pathlib import Path

from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import JsonObject, as_object, as_text
from wicket_mcp.results.content import blocks_of, text_of, texts_of
from wicket_mcp.telemetry.log import clean


def show(result: JsonObject) -> None:
    """Text as text, and a line for whatever cannot be shown."""
    blocks = blocks_of(result)
    for block in blocks:
        text = text_of(block)
        say(text if text is not None else _summary(block))
    if not blocks and result.get("structuredContent") is not None:
        say_json(result["structuredContent"])


def show_raw(result: JsonObject) -> None:
    """The text exactly as it came, nothing added; a terminal still gets no control characters."""
    texts = texts_of(result)
    if not texts and result.get("structuredContent") is not None:
        say_json(result["structuredContent"])
        return
    whole = "\n".join(texts)
    if sys.stdout.isatty():
        say(clean(whole))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(whole.encode("utf-8", "replace"))


def save(result: JsonObject, path: Path) -> None:
    """Write the pictures, sounds and files of a result; several get numbers. Without any, its text is written."""
    parts = list(_binaries(result))
    if not parts:
        texts = texts_of(result)
        parts = [("\n".join(texts).encode("utf-8", "replace"), "text")]
    for number, (data, kind) in enumerate(parts, 1):
        target = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            target.write_bytes(data)
        except OSError as problem:
            raise ConfigError(f"cannot be written: {problem.strerror}.", file=str(target), key="--out") from None
        note(f"saved {target} ({kind}, {len(data):,} bytes)")


def _binaries(result: JsonObject) -> Iterator[tuple[bytes, str]]:
    for block in blocks_of(result):
        resource = as_object(block.get("resource"))
        encoded = as_text(block.get("data")) or as_text(resource.get("blob"))
        if encoded:
            try:
                data = base64.b64decode(encoded, validate=False)
            except (binascii.Error, ValueError):
                note("wicket: a part of the result is not valid base64 and was left out")
                continue
            yield data, as_text(block.get("mimeType")) or as_text(resource.get("mimeType")) or "unknown type"


def _summary(block: JsonObject) -> str:
    kind = as_text(block.get("type")) or "content"
    resource = as_object(block.get("resource"))
    about = as_text(block.get("mimeType")) or as_text(block.get("uri")) or as_text(resource.get("uri"))
    if block.get("data") or resource.get("blob"):
        return f"[{kind}: {about}; --out FILE saves it]"
    return f"[{kind}: {about}]" if about else f"[{kind}]"
