"""Parses text into plain data: TOML, JSON with or without comments, and YAML, recognised by the text itself.

A `Document` can also find the line of a key, for errors; this reads the text a second time, only on demand. Knows
nothing about servers or options. Text that cannot be parsed raises InvalidOption with a line.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wicket_mcp.config.model.validation import InvalidOption, KeyPath
from wicket_mcp.config.read.positions import json_lines, toml_lines

_JSON_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?')
_JSON_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|,(?=\s*[}\]])')
_YAML_START = re.compile(r"""(?:---|%YAML|- |[A-Za-z_"'][^=:#]*:(?:\s|$))""")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(slots=True)
class Document:
    """A file's content. `repeated` has the second line of every key that occurs twice in one table."""

    tree: Any
    syntax: Literal["toml", "json", "yaml"]
    text: str = field(repr=False)
    repeated: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    lines: dict[KeyPath, int] | None = None

    def all_lines(self) -> Mapping[KeyPath, int]:
        """The line of each key."""
        if self.lines is None:
            self.lines = toml_lines(self.text) if self.syntax == "toml" else json_lines(self.text)[0]
        return self.lines

    def line(self, path: KeyPath) -> int | None:
        """The line of the key at `path`, or of the nearest one above it."""
        lines = self.all_lines()
        while path:
            if path in lines:
                return lines[path]
            path = path[:-1]
        return None


def read(text: str) -> Document:
    """Parse `text` in any of these syntaxes. Raises InvalidOption."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        match _sniff(text):
            case "json":
                return _json(text)
            case "yaml":
                return _yaml(text)
            case _:
                return _toml(text)
    except RecursionError:
        raise InvalidOption((), "is nested too deeply.", "A configuration needs a few levels only.") from None


def _sniff(text: str) -> str:
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            if line.startswith(("{", "//", "/*")):
                return "json"
            return "yaml" if _YAML_START.match(line) else "toml"
    return "toml"


def _toml(text: str) -> Document:
    try:
        return Document(tomllib.loads(text), "toml", text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        problem = _TOML_PLACE.sub("", str(error))
        raise InvalidOption((), f"is not valid TOML: {problem}.", "Fix the text near this line.", line) from None
    except ValueError as error:  # an impossible date, a number of thousands of digits
        raise InvalidOption((), f"is not valid TOML: {error}.", "Fix the value.") from None


def _json(text: str) -> Document:
    plain = _JSON_TRAILING_COMMA.sub(_blank, _JSON_COMMENT.sub(_blank, text))
    has_repeats = False

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeats
        mapping = dict(pairs)
        has_repeats = has_repeats or len(mapping) != len(pairs)
        return mapping

    try:
        # Not the codec: it would not notice a duplicate server name.
        tree = json.JSONDecoder(object_pairs_hook=table, parse_constant=_refuse).decode(plain)
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON: {error.msg} (column {error.colno})."
        raise InvalidOption((), problem, "Comments and trailing commas are allowed.", error.lineno) from None
    except ValueError as error:
        raise InvalidOption((), f"is not valid JSON: {error}.", "Fix the value.") from None
    return Document(tree, "json", plain, json_lines(plain)[1] if has_repeats else {})


def _blank(match: re.Match[str]) -> str:
    """Replace a comment or comma by spaces, so that offsets stay the same. A comment without an end is an error."""
    stays = match[0].startswith('"') or (match[0].startswith("/*") and not match[0].endswith("*/", 2))
    return match[0] if stays else re.sub(r"[^\n]", " ", match[0])


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number that JSON has")


def _yaml(text: str) -> Document:
    from wicket_mcp.config.read import yamltext  # noqa: PLC0415  (PyYAML is slow to load, and few have a YAML file)

    tree, lines, repeated = yamltext.read(text)
    return Document(tree, "yaml", text, repeated, lines)
