"""Checks that the files of a skill match the server's listing: size, digest, and the metadata in SKILL.md.

A skill is instructions that a model follows, so a file that differs from the listed (and perhaps approved) one is never
returned. Pure; `skills.py` knows the lists.
"""

import hashlib
import re
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, ClassVar

from wicket_mcp.model import JsonObject, as_list, as_object, as_text

MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
_PLAIN_VALUES = (
    ("null", "", re.compile(r"^$")),
    ("null", "~nN", re.compile(r"^(?:~|null|Null|NULL)$")),
    ("bool", "tTfF", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")),
    ("int", "-+0123456789", re.compile(r"^[-+]?[0-9]+$")),
    ("float", "-+0123456789.", re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")),
)
"""How the core schema of YAML 1.2 writes each kind: its first character and the whole."""


def is_within_limits(entry: JsonObject) -> bool:
    """Whether a skill is within the protocol's size limits."""
    files = [as_object(file) for file in as_list(entry.get("resources"))]
    sizes = [file.get("size") for file in files]
    return len(files) <= MAX_FILES and sum(max(size, 0) for size in sizes if isinstance(size, int)) <= MAX_BYTES


def has_file(entry: JsonObject, uri: str) -> bool:
    """Whether a skill's entry names this file."""
    return uri == entry.get("uri") or any(as_object(file).get("uri") == uri for file in as_list(entry.get("resources")))


def find_difference(entry: JsonObject, content: JsonObject) -> str:
    """How a file differs from its skill's entry; empty if it does not."""
    uri = as_text(content.get("uri"))
    files = map(as_object, as_list(entry.get("resources")))
    listed = next((file for file in files if file.get("uri") == uri), JsonObject())
    data = _bytes(content)
    if data is None:
        return "content"
    size, digest = listed.get("size"), as_text(listed.get("digest"))
    if isinstance(size, int) and size != len(data):
        return "size"
    if digest.startswith("sha256:") and digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
        return "digest"
    if uri == entry.get("uri") and _frontmatter(data) != entry.get("frontmatter"):
        return "frontmatter"
    return ""


def _bytes(content: JsonObject) -> bytes | None:
    if not isinstance(content.get("blob"), str):
        return as_text(content.get("text")).encode()
    try:
        return b64decode(content["blob"], validate=True)
    except NotBase64:
        return None


def _frontmatter(data: bytes) -> Any:
    """The fields in the front matter of SKILL.md; None if it cannot be read."""
    import yaml  # noqa: PLC0415  (few servers have skills)

    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return None
    fields, dashes, _ = text.removeprefix("---\n").partition("\n---")
    if not dashes:
        return None
    try:
        return yaml.load(fields, Loader=_loader(yaml))  # noqa: S506  (a subclass of the safe loader)
    except yaml.YAMLError:
        return None


def _loader(yaml: Any) -> Any:
    """A safe loader for YAML 1.2, the format of skills: dates and `yes` are text, as in the entry's JSON."""

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: ClassVar[Any] = {}

    for name, first, pattern in _PLAIN_VALUES:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", pattern, list(first) or [""])
    return Loader
