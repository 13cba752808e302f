"""No pattern of Wicket's backtracks over a stranger's text: each takes steps in proportion to what it reads.

The patterns are found in the modules themselves, so a new one is tested without a word here. Steps are counted by a
model of the matcher (`backtracking.py`), not timed. What the loop waits for in all is measured by `bench/held.py`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, cast

import pytest

import wicket_mcp
from tests.reliability.backtracking import growth

SOURCE = Path(wicket_mcp.__file__).parent
LINEAR = 4.5
"""The most that three times the text may cost: three, and something for what is read once; a square costs nine."""
AT_ONCE = {"match", "fullmatch"}
OF_OUR_OWN = {"telemetry/known.py": "an alternative for each secret of the user's, which is text without operators"}
"""Files that build a pattern while they run, and why none of it is a stranger's."""


ROOMS = sorted({path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()})


def modules(room: str) -> Iterator[tuple[str, Path]]:
    for module in walk_packages(wicket_mcp.__path__, "wicket_mcp."):
        path = SOURCE.joinpath(*module.name.split(".")[1:])
        if module.name.split(".")[1] == room and not module.name.endswith("__main__"):
            yield module.name, path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def uses_of(name: str, path: Path) -> set[str]:
    """What its own module does with a pattern of this name."""
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)]
    owners = [(node.attr, node.value.value if isinstance(node.value, ast.Subscript) else node.value) for node in nodes]
    return {use for use, owner in owners if isinstance(owner, ast.Name) and owner.id == name}


def patterns_in(value: Any) -> "Iterator[tuple[re.Pattern[Any], bool]]":
    """The patterns of a value, and whether it is one's method that matches at one place."""
    if isinstance(value, re.Pattern):
        yield cast("re.Pattern[Any]", value), False
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__, value.__name__ in AT_ONCE
    elif isinstance(value, dict):
        yield from patterns_in(tuple(cast("dict[Any, Any]", value).values()))
    elif isinstance(value, tuple | list | set | frozenset):
        for part in cast("tuple[Any, ...]", value):
            yield from patterns_in(part)


def constants(path: Path) -> Iterator[str]:
    """The names that a module gives to values of its own."""
    for node in tree_of(path).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def written_in_calls(name: str, path: Path) -> "Iterator[tuple[str, re.Pattern[Any], bool]]":
    """Patterns that `re` compiles when they are used: `re.split(r"[./]", text)`."""
    for call in calls_of_re(tree_of(path)):
        first = call.args[0]
        source = getattr(import_module(name), first.id, None) if isinstance(first, ast.Name) else None
        source = first.value if isinstance(first, ast.Constant) else source
        if isinstance(source, str) and cast("ast.Attribute", call.func).attr != "compile":
            yield f"{name}, line {call.lineno}", re.compile(source), cast("ast.Attribute", call.func).attr in AT_ONCE


def patterns_of(room: str) -> "Iterator[tuple[str, re.Pattern[Any], bool]]":
    for name, path in modules(room):
        module = import_module(name)
        for constant in constants(path):
            uses = uses_of(constant, path)
            for pattern, whole in patterns_in(getattr(module, constant, None)):
                yield f"{name}.{constant}", pattern, whole or (bool(uses) and uses <= {*AT_ONCE, "pattern"})
        for place, pattern, whole in written_in_calls(name, path):
            yield f"{name}, {place}", pattern, whole


@pytest.mark.parametrize("room", ROOMS)
def test_no_pattern_backtracks_over_hostile_text(room: str) -> None:
    """W12, W14, W19, W34: the class of them."""
    worst = [(place, pattern.pattern, *growth(pattern, whole=whole)) for place, pattern, whole in patterns_of(room)]
    assert [row for row in worst if row[2] > LINEAR] == []


def test_patterns_are_found_wherever_they_stand() -> None:
    assert {place for place, _, _ in patterns_of("spelling")} > {"wicket_mcp.spelling._WORD"}
    assert any(pattern.pattern == "[./]|__" for _, pattern, _ in patterns_of("spelling")), "given to re.split"
    assert any("_texts" in place for place, _, _ in patterns_of("large_json")), "a method of a pattern"
    assert any("_LUA_HABITS" in place for place, _, _ in patterns_of("scripts")), "in a tuple"


@pytest.mark.parametrize(
    ("source", "whole"),
    [(r"(a+)+$", True), (r"\s+$", False), (r'"(?:[^"\\]|\\.)*"', False), (r"(\w+:?)+!", True), (r".*,.*;", True)],
)
def test_a_pattern_that_backtracks_is_found(source: str, *, whole: bool) -> None:
    assert growth(re.compile(source), whole=whole)[0] > LINEAR


@pytest.mark.parametrize("room", ROOMS)
def test_no_pattern_is_built_from_what_is_read(room: str) -> None:
    """W14: a function gives `re` only what stands in the source."""
    known = [(name, path) for name, path in modules(room) if path.relative_to(SOURCE).as_posix() not in OF_OUR_OWN]
    calls = [(name, call) for name, path in known for function in functions(path) for call in calls_of_re(function)]
    assert [f"{name}, line {call.lineno}" for name, call in calls if not is_written(call.args[0], name)] == []


def functions(path: Path) -> list[ast.AST]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def calls_of_re(tree: ast.AST) -> list[ast.Call]:
    """Except `re.escape`, which compiles nothing."""
    calls = [(node, node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    attributes = [(node, function) for node, function in calls if isinstance(function, ast.Attribute)]
    return [
        node
        for node, function in attributes
        if isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr != "escape"
    ]


def is_written(argument: ast.expr, name: str) -> bool:
    if isinstance(argument, ast.Name):
        return isinstance(getattr(import_module(name), argument.id, None), str)
    return isinstance(argument, ast.Constant)
