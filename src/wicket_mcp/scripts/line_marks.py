"""Inserts marks of the current line before every statement, for the run that finds out where CPU time was used.

Pure text to text, for JavaScript and Python: each statement, and each turn of a loop, is preceded by an assignment of
its line to a variable. Runs in the jail; a source that cannot be parsed is returned unchanged.
"""

import ast
from typing import Any, cast

from wicket_mcp.scripts import typescript

_LISTS = frozenset({"program", "statement_block", "switch_case", "switch_default"})
_LOOPS = frozenset({"for_statement", "for_in_statement", "while_statement", "do_statement"})
_DECLARATIONS = frozenset({"lexical_declaration", "variable_declaration"})
_UNMARKED = frozenset({"import_statement", "export_statement", "empty_statement"})


def name(source: str) -> str:
    """A variable name that does not occur in the source."""
    free = "wicket_line"
    while free in source:
        free += "_"
    return free


def javascript(source: str, variable: str) -> str:
    """JavaScript, without types, with marks; line numbers stay the same."""
    data = source.encode("utf-8", "replace")
    root = typescript.parse(data)
    if root is None or root.has_error:
        return source
    insertions: list[tuple[int, str]] = []
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if node.type in _LISTS:
            insertions += [(child.start_byte, _mark(variable, child)) for child in node.children if _is_markable(child)]
        elif node.type in _LOOPS:
            insertions += _around(node.child_by_field_name("body"), variable)
        pending.extend(node.children)
    parts: list[bytes] = []
    at = 0
    for position, text in sorted(insertions, key=lambda insertion: insertion[0]):  # stable: an outer mark comes first
        parts += [data[at:position], text.encode()]
        at = position
    return b"".join([*parts, data[at:]]).decode("utf-8", "replace")


def _around(body: Any, variable: str) -> list[tuple[int, str]]:
    if body is None:
        return []
    mark = _mark(variable, body)
    if body.type == "statement_block":
        return [(body.start_byte + 1, mark)]
    return [(body.start_byte, "{" + mark), (body.end_byte, "}")]


def _mark(variable: str, node: Any) -> str:
    return f"{variable}={node.start_point[0] + 1};"


def _is_markable(node: Any) -> bool:
    if node.type == "expression_statement" and node.named_child_count and node.named_children[0].type == "string":
        return False  # a directive such as "use strict", which must stay first
    return node.type in _DECLARATIONS or (node.type.endswith("_statement") and node.type not in _UNMARKED)


def python(source: str, variable: str) -> str:
    """Python with marks; lines of the text move, but the marks have the original numbers."""
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):  # a mark would become a field of the class
                continue
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list):
                    setattr(node, field, _mark_all(cast("list[Any]", statements), variable))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.body.insert(0, ast.Global([variable]))
        return f"{variable} = 0\n{ast.unparse(tree)}"
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def _mark_all(statements: list[Any], variable: str) -> list[ast.stmt]:
    marked: list[ast.stmt] = []
    for statement in statements:
        target = ast.Name(variable, ast.Store())
        marked += [ast.Assign([target], ast.Constant(statement.lineno), lineno=statement.lineno), statement]
    return marked
