"""TypeScript that needs code, not only erased types: enums and parameter properties, as JavaScript on the same lines.

Pure functions over the nodes of the grammar: what to insert, and where. `typescript` erases the original.
"""

import re
from typing import Any

_NUMBER = re.compile(rb"-?\d[\d_]*")
_PROPERTY = ("accessibility_modifier", "readonly", "override_modifier")


def enum_code(node: Any) -> bytes | None:
    """A statement that defines the same object; None if a value is neither a number nor a text."""
    name: bytes = node.child_by_field_name("name").text
    parts: list[bytes] = []
    following = 0
    for member in node.child_by_field_name("body").named_children:
        if member.type == "comment":
            continue
        value = member.child_by_field_name("value")
        key = _key(member.child_by_field_name("name") if value is not None else member)
        text: bytes = value.text if value is not None else b"%d" % following
        if _NUMBER.fullmatch(text):
            following = int(text.replace(b"_", b"")) + 1
            parts.append(b"e[e[%s] = %s] = %s" % (key, text, key))
        elif value is not None and value.type == "string":
            parts.append(b"e[%s] = %s" % (key, text))
        else:
            return None
    return b"const %s = ((e) => { %s; return e })({});" % (name, b"; ".join(parts) or b"0")


def _key(node: Any) -> bytes:
    text: bytes = node.text
    return text if node.type == "string" else b'"%s"' % text


def properties_code(constructor: Any) -> tuple[int, bytes]:
    """Where a constructor assigns its parameter properties, and the code that does; empty if it has none."""
    names: list[bytes] = [
        parameter.child_by_field_name("pattern").text
        for parameter in constructor.child_by_field_name("parameters").named_children
        if any(child.type in _PROPERTY for child in parameter.children)
    ]
    body = constructor.child_by_field_name("body")
    return _first_place(body), b"".join(b"; this.%s = %s;" % (name, name) for name in names)


def _first_place(body: Any) -> int:
    """After the call of the base class's constructor if it is the first statement, else at the start."""
    statements = [node for node in body.named_children if node.type != "comment"]
    first = statements[0] if statements else None
    if first is not None and first.type == "expression_statement" and first.text.startswith(b"super("):
        return int(first.end_byte)
    return int(body.start_byte) + 1
