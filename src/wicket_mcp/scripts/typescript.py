"""TypeScript to JavaScript by blanking: types become spaces, so that every line and column stays where it was.

Enums and parameter properties become code on the same lines (`typescript_code`); namespaces and decorators are rejected
with their line. Types are not checked.
"""

import re
from typing import Any, NoReturn

from wicket_mcp.scripts.typescript_code import enum_code, properties_code
from wicket_mcp.scripts.worker import Failure, optional

tree_sitter = optional("tree_sitter")
grammar = optional("tree_sitter_typescript")

_BLANK = frozenset(
    {
        "type_annotation", "type_parameters", "type_arguments", "interface_declaration", "type_alias_declaration",
        "ambient_declaration", "accessibility_modifier", "override_modifier", "implements_clause",
        "asserts_annotation", "type_predicate_annotation", "function_signature", "abstract_method_signature",
        "index_signature", "opting_type_annotation", "omitting_type_annotation", "adding_type_annotation",
    }
)  # fmt: skip
_REFUSED = {
    "internal_module": "namespace",
    "module": "namespace",
    "decorator": "decorators",
    "import_alias": "import =",
}
_LOGIC = re.compile(rb"&&|\|\|")
_NO_VALUE = frozenset({"assignment_expression", "augmented_assignment_expression", "update_expression"})
RETURN = b"return "
_parsers: list[Any] = []


def prepare() -> None:
    """Load the grammar, in the zygote."""
    if tree_sitter is None or grammar is None or _parsers:
        return
    language = tree_sitter.Language(grammar.language_typescript())
    _parsers.append(tree_sitter.Parser(language))


def parse(data: bytes) -> Any:
    """The root of a source's tree, or None if there is no grammar."""
    prepare()
    return _parsers[0].parse(data).root_node if _parsers else None


def blank(source: str) -> str:
    """`source` without its types. Raises Failure for what cannot be erased."""
    data = source.encode("utf-8", "replace")
    out = bytearray(data)
    added: list[tuple[int, bytes]] = []
    pending = [parse(data)]
    while pending:
        node = pending.pop()
        if node.type in _REFUSED and node.is_named:
            _refuse(node, _REFUSED[node.type])
        if node.type == "type_arguments" and _LOGIC.search(data, node.start_byte, node.end_byte):
            continue  # two comparisons that the grammar parses as a generic call
        if node.type in _BLANK:
            _erase(out, node.start_byte, node.end_byte)
        elif node.type == "enum_declaration":
            code = enum_code(node) or _refuse(node, "enum with computed values")
            _erase(out, node.start_byte, node.end_byte)
            added.append((node.start_byte, code))
        else:
            if node.type == "method_definition" and node.child_by_field_name("name").text == b"constructor":
                added.append(properties_code(node))
            _erase_parts(out, node)
            pending.extend(node.children)
    for at, code in sorted(added, reverse=True):
        out[at:at] = code
    return out.decode("utf-8", "replace")


def without_exports(source: str) -> str:
    """`source` without the word `export` before its statements: there are no modules, and what it means is clear."""
    data = source.encode("utf-8", "replace")
    root = parse(data) if b"export" in data else None
    if root is None:
        return source
    out = bytearray(data)
    for node in root.named_children:
        if node.type == "export_statement" and (node.child_by_field_name("declaration") or _default(node)):
            for child in node.children:
                if child.type in ("export", "default"):
                    _erase(out, child.start_byte, child.end_byte)
    return out.decode("utf-8", "replace")


def _default(export: Any) -> bool:
    return any(child.type == "default" for child in export.children)


def return_last(source: str) -> tuple[str, int]:
    """`source` with `return` before its last expression, unless it returns something itself, and the line of that.

    The line is 0 if nothing was added.
    """
    data = source.encode("utf-8", "replace")
    root = parse(data)
    if root is None or root.has_error:
        return source, 0
    statements = [node for node in root.named_children if node.type != "comment"]
    if not statements or any(node.type == "return_statement" for node in statements):
        return source, 0
    last = statements[-1]
    if last.type != "expression_statement" or last.named_children[0].type in _NO_VALUE:
        return source, 0
    text = data[: last.start_byte] + RETURN + data[last.start_byte :]
    return text.decode("utf-8", "replace"), last.start_point[0] + 1


def _erase_parts(out: bytearray, node: Any) -> None:
    children = node.children
    match node.type:
        case "as_expression" | "satisfies_expression":
            _erase(out, children[0].end_byte, node.end_byte)
        case "non_null_expression":
            _erase(out, children[-1].start_byte, node.end_byte)
        case "type_assertion":
            _erase(out, children[0].start_byte, children[0].end_byte)
        case "required_parameter" | "optional_parameter":
            _erase_parameter(out, node)
        case "public_field_definition":
            for child in children:
                if child.type in ("readonly", "declare", "abstract", "?", "!"):
                    _erase(out, child.start_byte, child.end_byte)
        case "variable_declarator" | "method_definition" | "abstract_class_declaration":
            for child in children:
                if child.type in ("!", "?", "abstract"):
                    _erase(out, child.start_byte, child.end_byte)
        case "import_statement" | "export_statement" if any(c.type == "type" for c in children):
            _erase(out, node.start_byte, node.end_byte)
        case _:
            pass


def _erase_parameter(out: bytearray, node: Any) -> None:
    for child in node.children:
        if child.type in ("?", "readonly"):
            _erase(out, child.start_byte, child.end_byte)
        if child.type == "this":  # the pseudo-parameter is removed with the comma after it
            following = node.next_sibling
            stop = following.end_byte if following is not None and following.type == "," else node.end_byte
            _erase(out, node.start_byte, stop)


def _erase(out: bytearray, start: int, stop: int) -> None:
    for index in range(start, stop):
        if out[index] not in b"\r\n":
            out[index] = 32


def _refuse(node: Any, feature: str) -> NoReturn:
    row, column = node.start_point
    raise Failure(
        "syntax",
        f"TypeScript's {feature} cannot be run here: write it as JavaScript.",
        line=row + 1,
        column=column + 1,
    )
