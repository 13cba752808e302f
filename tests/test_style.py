"""How the code reads: functions are verbs, and a local or a parameter is named for what it holds.

Pure properties, the callbacks of asyncio's protocols and names of several words (`required_keys`) are not concerned.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import wicket_mcp

SOURCE = Path(wicket_mcp.__file__).parent

PRONOUNS = frozenset(
    {
        "all_",
        "another",
        "asked",
        "both",
        "each",
        "found",
        "given",
        "gone",
        "got",
        "it",
        "kept",
        "made",
        "one",
        "ones",
        "other_",
        "ours",
        "rest",
        "said",
        "shown",
        "some",
        "taken",
        "theirs",
        "them",
        "there",
        "these",
        "they",
        "thing",
        "things",
        "this_",
        "those",
        "told",
        "wanted",
        "what",
        "which",
        "who",
        "whom",
        "whose",
    }
)
"""Names that say nothing about what a variable holds."""

PARTICIPLES = frozenset(
    {
        "asked",
        "begun",
        "borne",
        "bound",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "dealt",
        "done",
        "drawn",
        "felt",
        "found",
        "given",
        "gone",
        "got",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "sought",
        "spent",
        "spoken",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "understood",
        "withdrawn",
        "won",
        "worn",
        "written",
    }
)
VERBS_IN_ED = frozenset({"feed", "need", "seed", "speed", "zed"})  # Zed is a client whose files are read


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in PARTICIPLES or (word.isalpha() and word.endswith("ed") and word not in VERBS_IN_ED)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def offences(path: Path, source: str) -> Iterator[str]:
    for function in functions(ast.parse(source)):
        if is_participle(function.name) and not is_property(function):
            yield f"{path}:{function.lineno} {function.name}() is a participle: name what it does"
        for name, line in local_names(function):
            if name.strip("_") in PRONOUNS:
                yield f"{path}:{line} '{name}' does not say what it holds"


def test_the_rules_find_participles_and_pronouns_and_leave_properties_alone() -> None:
    source = """
class Pool:
    @property
    def closed(self): ...
    def mended(self, given): ...
def feed(found):
    for one in found: ...
def is_held(required_keys): ...
"""
    lines = sorted(offence.partition(" ")[0] for offence in set(offences(Path("x"), source)))
    assert lines == ["x:5", "x:5", "x:6", "x:7"]


def test_functions_are_verbs_and_locals_are_named_for_what_they_hold() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 200
    wrong = [offence for file in files for offence in offences(file.relative_to(SOURCE), file.read_text("utf-8"))]
    assert not wrong, "\n".join(dict.fromkeys(wrong))
