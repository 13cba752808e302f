"""Interprets the body of a tool result: its blocks, the text of a block, and its value.

Pure functions over the JSON of a result, read by stored results, scripts, the audit and the command line, so that a
result means the same everywhere. A body comes from an upstream, so no type in it is trusted.
"""

from contextlib import suppress
from typing import Any, cast

from wicket_mcp.codec import LARGE, decode, encode, weighs_over
from wicket_mcp.large_json import decode_in_pieces
from wicket_mcp.model import JsonObject, as_list, as_object

AS_DECLARED = "wicket/asDeclared"
"""The key that marks a stored body whose `{"result": value}` is what the tool declares, and no wrapper."""


def blocks_of(body: JsonObject) -> list[JsonObject]:
    """The content blocks of a result."""
    return [block for block in as_list(body.get("content")) if isinstance(block, dict)]


def text_of(block: JsonObject) -> str | None:
    """The text of a text block or of an embedded resource; None for images, audio, links and binary files."""
    if block.get("type") == "text":
        text: Any = block.get("text")
    else:
        text = as_object(block.get("resource")).get("text")
    return text if isinstance(text, str) else None


def texts_of(body: JsonObject) -> list[str]:
    """The texts of all blocks that have one."""
    return [text for block in blocks_of(body) if (text := text_of(block)) is not None]


def parse_text(text: str) -> Any:
    """The object or list if the text is JSON of one, else the text: a lone `42` stays text."""
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return decode(text) if len(text) < LARGE else decode_in_pieces(text)
    return text


def value_of(body: JsonObject) -> Any:
    """The value of a result: its structured content, else its text (parsed if it is a JSON object or array)."""
    structured: Any = body.get("structuredContent")
    if structured is not None:
        return structured if AS_DECLARED in body else unwrap_structured(structured)
    texts = texts_of(body)
    return parse_text(texts[0]) if len(texts) == 1 else "\n".join(texts)


def wraps_value(output_schema: Any) -> bool:
    """Whether a tool's `{"result": value}` is only a wrapper: unless the tool declares other fields beside it."""
    declared = as_object(as_object(output_schema).get("properties"))
    return not declared or set(declared) == {"result"}


def unwrap_structured(structured: Any) -> Any:
    """Structured content without the object that many servers wrap around a function's value: `{"result": value}`."""
    if len(as_object(structured)) != 1 or "result" not in structured:
        return structured
    value = structured["result"]
    return parse_text(value) if isinstance(value, str) else value


_NOT_READ = frozenset({"blob", "data", "_meta"})  # content that is not text, and what hosts read


def count_text(value: Any) -> int:
    """Characters of all texts in a value, such as a resource, a prompt or a list; images and the like do not count."""
    count, left = 0, list[Any]([value])
    while left:
        part = left.pop()
        if isinstance(part, str):
            count += len(part)
        elif isinstance(part, dict):
            left += [field for name, field in as_object(part).items() if name not in _NOT_READ]
        else:
            left += as_list(part)
    return count


def size_of(body: JsonObject) -> int:
    """Characters of a result that a model would read, at most `LARGE`; images do not count."""
    texts = 0
    content: Any = body.get("content")
    for block in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(block, dict) and (text := text_of(cast("JsonObject", block))) is not None:
            texts += len(text)
    structured: Any = body.get("structuredContent")
    if structured is None:
        return texts
    # A large value is not encoded just to be measured.
    return max(texts, LARGE if weighs_over(structured) else len(encode(structured)))
