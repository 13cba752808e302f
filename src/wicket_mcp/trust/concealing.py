"""Replaces untrusted text by other text of the same shape, with other letters, digits and length. Pure.

A script that runs again on concealed results shows what depends on them: an argument that stays the same does not
derive from them. Concealed is what `matching.py` classifies as prose; whole fields stay unchanged, because they are
passed on as they are. Used for the second runs of scripts.
"""

from collections.abc import Collection, Mapping
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.trust.matching import is_field, is_prose, parse

_ALPHABETS = (ascii_lowercase, ascii_uppercase, digits)
_ROTATED = str.maketrans({letter: alphabet[at - 1] for alphabet in _ALPHABETS for at, letter in enumerate(alphabet)})


def conceal_body(body: JsonObject, exempt: Collection[str]) -> JsonObject:
    """A tool's result with its prose concealed, except in the fields of these names."""
    concealed, name = dict(body), "message" if body.get("isError") else ""
    if "structuredContent" in body:
        concealed["structuredContent"] = conceal(body["structuredContent"], exempt, name)
    if isinstance(body.get("content"), list):
        concealed["content"] = [_conceal_block(as_object(block), exempt, name) for block in as_list(body["content"])]
    return concealed


def conceal_error(problem: UpstreamError) -> UpstreamError:
    """What a server or its connection reported, with its text concealed."""
    return UpstreamError(problem.server, _conceal_text(str(problem)))


def conceal(value: Any, exempt: Collection[str], name: str = "") -> Any:
    """The value with its prose concealed, except in the fields of these names; the structure stays."""
    if isinstance(value, str):
        written = name not in exempt and is_prose(name, value) and not is_field(name, value)
        return _conceal_text(value) if written else value
    if isinstance(value, Mapping):
        items = as_object(value).items()
        return {conceal(key, exempt): conceal(item, exempt, key.lower()) for key, item in items}
    if isinstance(value, list):
        return [conceal(item, exempt, name) for item in as_list(value)]
    return value


def _conceal_block(block: JsonObject, exempt: Collection[str], name: str) -> JsonObject:
    if block.get("type") == "resource_link":
        return {key: conceal(value, exempt, key) for key, value in block.items()}
    if isinstance(block.get("resource"), dict):
        return {**block, "resource": _conceal_block(as_object(block["resource"]), exempt, name)}
    text = block.get("text")
    if not isinstance(text, str):
        return block
    value = parse(text)
    if isinstance(value, str):
        return {**block, "text": conceal(text, exempt, name)}
    return {**block, "text": encode(conceal(value, exempt, name)).decode()}


def _conceal_text(text: str) -> str:
    rotated = text.translate(_ROTATED)
    others = (chr(ord(letter) ^ 1) if letter > "\x7f" and letter.isalpha() else letter for letter in rotated)
    return f"{''.join(others)} x"
