"""Classes of the standard library's kinds (`NamedTuple`, `TypedDict`, `Enum`), as code without a base class.

The engine has no inheritance, but these need none. Text of a class to text of a statement; `rewriting` puts it in
place. A class that has more than fields is left alone, and the engine says that it cannot run it.
"""

import ast


def without_base(node: ast.ClassDef) -> tuple[str, str] | None:
    """The statement that defines the same, and the part of the prelude that it needs; None for any other class."""
    base = _only_base(node)
    if base == "TypedDict":
        return f"{node.name} = dict", ""
    if base == "NamedTuple":
        return _named_tuple(node)
    return _enum(node) if base == "Enum" else None


def _only_base(node: ast.ClassDef) -> str:
    if len(node.bases) != 1 or node.decorator_list:
        return ""
    base = node.bases[0]
    return base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""


def _fields(node: ast.ClassDef) -> list[ast.stmt]:
    """The statements of a class without its docstring and `pass`."""
    return [
        item
        for item in node.body
        if not isinstance(item, ast.Pass) and not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
    ]


def _named_tuple(node: ast.ClassDef) -> tuple[str, str] | None:
    names: list[str] = []
    defaults: list[str] = []
    for item in _fields(node):
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            return None
        names.append(item.target.id)
        if item.value is not None:
            defaults.append(ast.unparse(item.value))
    values = "".join(f"{value}, " for value in defaults)
    return f"{node.name} = _wicket_named_tuple({node.name!r}, {names!r}, defaults=({values}))", "named_tuple"


def _enum(node: ast.ClassDef) -> tuple[str, str] | None:
    members: list[str] = []
    for item in _fields(node):
        if not isinstance(item, ast.Assign) or not isinstance(item.targets[0], ast.Name) or len(item.targets) > 1:
            return None
        members.append(f"({item.targets[0].id!r}, {ast.unparse(item.value)})")
    return f"{node.name} = _wicket_enum_type({node.name!r}, [{', '.join(members)}])", "enum"
