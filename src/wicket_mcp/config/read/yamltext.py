"""Parses YAML into plain data, with the line of every key.

Only what a configuration needs: tables, lists, text, numbers, true and false, anchors and merges. Values that would
change as numbers stay text (`0123`, `1.10`), and `yes` is text. Imported only when a file is YAML, because PyYAML is
slow to load.
"""

from typing import Any, cast

import yaml

from wicket_mcp.config.model.validation import InvalidOption, KeyPath

_TAG = "tag:yaml.org,2002:"
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


def read(text: str) -> tuple[Any, dict[KeyPath, int], dict[KeyPath, int]]:
    """The data, the line of each key, and the line of each duplicate key. Raises InvalidOption."""
    try:
        loaded = yaml.compose(text, Loader=yaml.SafeLoader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        root = cast("yaml.Node | None", loaded)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise InvalidOption((), f"is not valid YAML: {error.problem}.", "Fix the text near this line.", line) from None
    except (yaml.YAMLError, ValueError) as error:
        problem = str(error).partition("\n")[0]
        raise InvalidOption((), f"is not valid YAML: {problem}.", "Fix the text.") from None
    reader = _Reader()
    return (reader.value(root, ()) if root else None), reader.lines, reader.repeated


class _Reader:
    """Builds data from PyYAML's nodes. A repeated anchor is built once, so the size stays limited."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.repeated: dict[KeyPath, int] = {}
        self._built: dict[int, Any] = {}
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._built:
            return self._built[id(node)]
        if id(node) in self._open:
            raise InvalidOption(path, "an anchor refers to itself.", "Remove the alias.", _line(node))
        self._open.add(id(node))
        built: Any = self._table(node, path) if isinstance(node, yaml.MappingNode) else self._list(node, path)
        self._open.discard(id(node))
        self._built[id(node)] = built
        return built

    def _list(self, node: Any, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        for index, item in enumerate(node.value):
            self.lines[(*path, index)] = _line(item)
            items.append(self.value(item, (*path, index)))
        return items

    def _table(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise InvalidOption(path, "a key must be plain text.", "Quote it.", _line(key_node))
            key = str(key_node.value)
            if key_node.tag == f"{_TAG}merge":
                for source in _sources(self.value(value_node, path)):
                    merged = {**source, **merged}
                continue
            at = (*path, key)
            if key in own:
                self.repeated[at] = _line(key_node)
            self.lines[at] = _line(key_node)
            own[key] = self.value(value_node, at)
        return {**merged, **own}


def _sources(value: Any) -> list[dict[str, Any]]:
    candidates = cast("list[Any]", value if isinstance(value, list) else [value])
    return [cast("dict[str, Any]", item) for item in candidates if isinstance(item, dict)]


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.style is not None or node.tag == f"{_TAG}str":
        return text
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if str(number) == text else text
    return text


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
