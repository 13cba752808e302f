"""The mutants of one source text: each is the same module with one small mistake.

Pure: text in, texts out. Knows neither tests nor files. What only a person reads (logs, hints, the words of errors,
docstrings, annotations) is left alone.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

Change: TypeAlias = tuple[str, ast.AST | None]
"""The name of an operator, and what a node becomes; None takes a statement away."""

WEIGHTS = {
    "condition negated": 4,
    "operand dropped": 4,
    "filter dropped": 3,
    "and/or": 3,
    "comparison swapped": 4,
    "comparison reversed": 2,
    "comparison moved by one": 3,
    "constant changed": 1,
    "call dropped": 4,
    "raise dropped": 4,
    "except dropped": 2,
    "finally dropped": 2,
    "return None": 2,
    "element dropped": 2,
    "+/-": 1,
}
"""How often an operator is drawn: those that make a decision wrong more often than those that change a number."""

_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_REVERSED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TOLD = ("log", "note", "say", "explain", "warn")
"""Calls whose arguments only a person reads."""


@dataclass(frozen=True)
class Mutant:
    """One mistake. `lines` are those of which one must be executed for it to be noticed; none: any of the module."""

    line: int
    operator: str
    before: str
    after: str
    lines: range
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.operator}: {self.before} → {self.after}"


def mutate(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = [
        Mutant(_line(place.node), name, _shown(place.node), _shown(new), place.lines, place.unparse_with(tree, new))
        for place in _places(tree, range(0))
        for name, new in _changes(place.node)
    ]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.operator, mutant.after))


@dataclass(frozen=True)
class _Place:
    """Where a node is, and which lines execute it."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    lines: range

    def unparse_with(self, tree: ast.Module, new: ast.AST | None) -> str:
        """The module's text with `new` here; the tree stays as it is."""
        self._put(ast.Pass() if new is None else new)
        text = ast.unparse(ast.fix_missing_locations(tree))
        self._put(self.node)
        return text

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def _places(parent: ast.AST, lines: range, *, inside: bool = False) -> Iterator[_Place]:
    """Every node whose change may matter. Outside of functions (`inside`) no line says which test executes it."""
    for field, nodes in _fields(parent):
        for index, node in nodes:
            if not isinstance(node, ast.AST) or _is_prose(node, parent):
                continue
            now = _own_lines(node) if inside and isinstance(node, ast.stmt | ast.excepthandler) else lines
            yield _Place(parent, field, index, node, now)
            if not isinstance(node, ast.Raise):  # the rest of it is words
                within = inside or (isinstance(parent, _FUNCTIONS) and field == "body")
                yield from _places(node, now, inside=within or isinstance(node, _FUNCTIONS))


def _fields(node: ast.AST) -> Iterator[tuple[str, Iterable[tuple[int | None, object]]]]:
    """The fields of a node, and what is in each, with its place where it is a list."""
    name: str
    value: Any
    for name, value in ast.iter_fields(node):
        values = cast("list[object]", value) if isinstance(value, list) else None
        yield name, [(None, value)] if values is None else enumerate(values)


def _own_lines(node: ast.stmt | ast.excepthandler) -> range:
    """The lines of a statement without those of the statements in it."""
    blocks: list[ast.AST] = [*getattr(node, "body", ()), *getattr(node, "handlers", ())]
    last = min((_line(each) for each in blocks), default=(node.end_lineno or node.lineno) + 1)
    return range(node.lineno, max(last, node.lineno + 1))


def _is_prose(node: ast.AST, parent: ast.AST) -> bool:
    """What only a person or a type checker reads."""
    match parent:
        case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation) if node is annotation:
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.ClassDef() if not isinstance(node, ast.stmt):
            return True
        case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if node is returns:
            return True
        case ast.Subscript(slice=ast.Tuple()) if node is parent.slice:
            return True
        case _:
            pass
    match node:
        case ast.keyword(arg="hint") | ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return ast.unparse(function).partition(".")[0] in _TOLD
        case _:
            return False


def _changes(node: ast.AST) -> Iterator[Change]:
    """What can be wrong with one node, without what is in it."""
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition negated", _copy(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", _copy(node, op=other)
            for place in range(len(node.values)):
                rest = node.values[:place] + node.values[place + 1 :]
                yield "operand dropped", rest[0] if len(rest) == 1 else _copy(node, values=rest)
        case ast.comprehension(ifs=[_, *_]):
            for place in range(len(node.ifs)):
                yield "filter dropped", _copy(node, ifs=node.ifs[:place] + node.ifs[place + 1 :])
        case ast.Compare(ops=[op]):
            for name, table in (("swapped", _SWAPPED), ("reversed", _REVERSED), ("moved by one", _MOVED)):
                if type(op) in table:
                    yield f"comparison {name}", _copy(node, ops=[table[type(op)]()])
        case ast.Constant(value=bool(value)):
            yield "constant changed", ast.Constant(not value)
        case ast.Constant(value=int(number) | float(number)):
            yield "constant changed", ast.Constant(number + 1)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call dropped", None
        case ast.Raise():
            yield "raise dropped", None
        case ast.Try():
            yield from _changed_try(node)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Tuple(elts=[_, _, *_], ctx=ast.Load()) | ast.List(elts=[_, *_], ctx=ast.Load()) | ast.Set():
            for place in range(len(node.elts)):
                yield "element dropped", _copy(node, elts=node.elts[:place] + node.elts[place + 1 :])
        case ast.Dict(keys=[_, *_]):
            for place in range(len(node.keys)):
                keys, values = list(node.keys), list(node.values)
                del keys[place], values[place]
                yield "element dropped", _copy(node, keys=keys, values=values)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "+/-", _copy(node, op=other)
        case _:
            pass


def _changed_try(node: ast.Try) -> Iterator[Change]:
    for place in range(len(node.handlers)):
        rest = node.handlers[:place] + node.handlers[place + 1 :]
        if rest or node.finalbody:
            yield "except dropped", _copy(node, handlers=rest, orelse=node.orelse if rest else [])
        else:
            yield "except dropped", ast.If(ast.Constant(True), [*node.body, *node.orelse], [])
    if node.finalbody:
        if node.handlers:
            yield "finally dropped", _copy(node, finalbody=[])
        else:
            yield "finally dropped", ast.If(ast.Constant(True), node.body, [])


def _copy(node: ast.AST, **fields: object) -> ast.AST:
    """The node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _line(node: ast.AST) -> int:
    """The line of a node; that of its first part where it has none of its own."""
    own: int = getattr(node, "lineno", 0)
    return own or next((_line(child) for child in ast.iter_child_nodes(node)), 0)


def _shown(node: ast.AST | None) -> str:
    text = ast.unparse(node).splitlines() if node is not None else ["nothing"]
    return f"{text[0]} …" if len(text) > 1 else text[0]
