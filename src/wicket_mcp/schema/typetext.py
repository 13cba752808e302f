"""JSON Schema as TypeScript-like type text: `"open" | "closed"`, `string[]`, `{id: integer, tag?: string}`.

Reads an upstream's schema: local `$ref`, `allOf`, unions, nullability. A schema may be hostile, so nothing here raises,
loops, follows a remote reference, or does more than a fixed amount of work; cut parts are shown as `…`. Knows nothing
about tools.
"""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeGuard
from urllib.parse import unquote

import msgspec

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

CUT = "…"
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_SHAPE = (
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalProperties",
    "patternProperties",
)
_TELLING = (*_SHAPE, "$ref", "enum", "const", "anyOf", "oneOf", "allOf")
_WORK = 2000
_BRANCHES = 64
_NESTING = 24
_NAME_LENGTH = 128
_BIG = 10**18


class Style(msgspec.Struct, frozen=True):
    """How much of a type is written."""

    depth: int = 2
    """Objects inside objects: shown to this depth, then `{…}`."""
    values: int = 8
    """Members of an enum or a union."""
    fields: int = 10
    """Fields of an object."""
    defaults: bool = True
    strings: bool = True
    """Whether the type of a string parameter is written; most are strings."""
    length: int = 40
    """Characters of a literal."""
    typescript: bool = False
    """Write valid TypeScript: `number` for integers, `;` between fields, `any` for cut parts."""

    @property
    def cut(self) -> str:
        return "any" if self.typescript else CUT

    def join_fields(self, fields: list[str]) -> str:
        return f"{{ {'; '.join(fields)} }}" if self.typescript else f"{{{', '.join(fields)}}}"


TYPESCRIPT = Style(depth=4, values=_WORK, fields=_WORK, length=_WORK, typescript=True)


class Parameter(msgspec.Struct, frozen=True):
    """One property of an object schema."""

    name: str
    schema: Any
    required: bool


def is_object(value: Any) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


class Types:
    """The types of one schema document. Local references point into `root`."""

    def __init__(self, root: Any, style: Style | None = None) -> None:
        self._root = root
        self._style = style or Style()
        self._work = _WORK

    def text(self, schema: Any) -> str:
        return _join(self._members(schema, 0, ()))

    def parameters(self) -> list[Parameter]:
        """The properties of the root: required ones first, each group in the order of the schema."""
        root, active = self._resolve(self._root, ())
        by_name, required = self._fields(root)
        branches = [self._fields(self._resolve(branch, active)[0]) for branch in _union(root)]
        choices: dict[str, list[Any]] = {}
        for fields, _ in branches:
            for name, schema in fields.items():
                choices.setdefault(name, []).append(schema)
        for name, schemas in choices.items():
            by_name.setdefault(name, {"anyOf": schemas} if len(schemas) > 1 else schemas[0])
        needed = dict.fromkeys(required)
        if branches:
            shared = set(branches[0][1]).intersection(*(names for _, names in branches))
            needed |= dict.fromkeys(name for name in branches[0][1] if name in shared)
        for name in needed:
            by_name.setdefault(name, True)
        every = [Parameter(name, schema, name in needed) for name, schema in by_name.items()]
        return [parameter for parameter in every if parameter.required] + [
            parameter for parameter in every if not parameter.required
        ]

    def parameter_text(self, parameter: Parameter) -> str:
        """`name?: type = default`."""
        text = self._field(parameter.name, parameter.schema, parameter.required, 0, ())
        if not self._style.strings:
            text = text.removesuffix(": string")
        default: Any = self._resolve(parameter.schema, ())[0].get("default")
        default_text = literal(default, 24) if default is not None and self._style.defaults else CUT
        return text if CUT in default_text else f"{text} = {default_text}"

    def kinds(self, schema: Any) -> frozenset[str]:
        """The JSON types that `schema` accepts; all if it does not say."""
        return frozenset(self._kinds(schema, ()))

    def description(self, schema: Any) -> str:
        text: Any = self._resolve(schema, ())[0].get("description")
        return text if isinstance(text, str) else ""

    def resolve(self, schema: Any) -> JsonObject:
        """`schema` with its references resolved and its `allOf` merged; {} if it says nothing."""
        return self._resolve(schema, ())[0]

    def _kinds(self, schema: Any, active: tuple[str, ...]) -> Iterable[str]:
        self._work -= 1
        resolved, active = self._resolve(schema, active)
        if self._work < 0 or len(active) > _NESTING or not resolved:
            return _TYPES
        if "const" in resolved or resolved.get("enum"):
            values = [resolved["const"]] if "const" in resolved else _list(resolved["enum"])
            return {kind_of(value) for value in values[:_WORK]} or _TYPES
        if branches := _union(resolved):
            return {kind for branch in branches for kind in self._kinds(branch, (*active, ""))}
        return _types(resolved) or _TYPES

    def _members(self, schema: Any, depth: int, active: tuple[str, ...]) -> list[str]:
        """The members of the union that `schema` is; most schemas have one."""
        self._work -= 1
        if self._work < 0 or len(active) > _NESTING:
            return [self._style.cut]
        if schema is False:
            return ["never"]
        resolved, inner = self._resolve(schema, active)
        if inner and inner[-1] == CUT:
            return [self._style.cut]
        inner = (*inner, "")
        if "const" in resolved:
            return [self._literal(resolved["const"])]
        nullable = ["null"] if resolved.get("nullable") is True else []
        if is_list(values := resolved.get("enum")) and values:
            return _unique([*self._few([self._literal(value) for value in values[:_BRANCHES]]), *nullable])
        if branches := _union(resolved):
            return _unique([*self._few(self._branches(resolved, branches, depth, inner)), *nullable])
        members = [self._single(kind, resolved, depth, inner) for kind in _types(resolved)]
        return _unique([*(members or ["any"]), *nullable])

    def _branches(self, schema: JsonObject, branches: list[Any], depth: int, active: tuple[str, ...]) -> list[str]:
        base = {key: schema[key] for key in _SHAPE if key in schema}
        members: list[str] = []
        for branch in branches:
            target, inner = self._resolve(branch, active)
            if base and is_object(branch) and CUT not in inner[-1:]:
                members += self._members(_merge(target, base), depth, inner)
            else:
                members += self._members(branch, depth, active)
        return [member for member in members if member != "null"] + ["null"] * ("null" in members)

    def _few(self, members: list[str]) -> list[str]:
        """The first members, and `null`, which is short and always useful."""
        members = _unique(members)
        if len(members) <= self._style.values:
            return members
        few = members[: self._style.values]
        return [*few, self._style.cut, "null"] if "null" in members and "null" not in few else [*few, self._style.cut]

    def _single(self, kind: str, schema: JsonObject, depth: int, active: tuple[str, ...]) -> str:
        if kind == "object":
            return self._object(schema, depth, active)
        if kind == "array":
            return self._array(schema, depth, active)
        return "number" if kind == "integer" and self._style.typescript else kind

    def _literal(self, value: Any) -> str:
        text = literal(value, self._style.length)
        return "any" if self._style.typescript and CUT in text else text

    def _array(self, schema: JsonObject, depth: int, active: tuple[str, ...]) -> str:
        items: Any = schema.get("items")
        first: Any = schema.get("prefixItems", items)
        if is_list(first):
            parts = [_join(self._members(item, depth, active)) for item in first[: self._style.fields]]
            extra: Any = schema.get("additionalItems") if first is items else items
            if len(first) > self._style.fields:
                parts.append(self._style.cut)
            elif is_object(extra):
                parts.append(f"...{self._element(extra, depth, active)}")
            return f"[{', '.join(parts)}]"
        return self._element(True if items is None else items, depth, active)

    def _element(self, schema: Any, depth: int, active: tuple[str, ...]) -> str:
        members = self._members(schema, depth, active)
        return f"({_join(members)})[]" if len(members) > 1 else f"{members[0]}[]"

    def _object(self, schema: JsonObject, depth: int, active: tuple[str, ...]) -> str:
        extra: Any = schema.get("additionalProperties")
        fields, required = self._fields(schema)
        if not fields:
            patterns = _dict(schema.get("patternProperties"))
            if patterns and not is_object(extra):
                extra = next(iter(patterns.values())) if len(patterns) == 1 else {"anyOf": [*patterns.values()]}
            if is_object(extra) and extra:
                return f"Record<string, {_join(self._members(extra, depth, active))}>"
            if self._style.typescript:
                return "Record<string, any>"
            return "{}" if extra is False else "object"
        if depth >= self._style.depth:
            return "Record<string, any>" if self._style.typescript else f"{{{CUT}}}"
        first = [name for name in required[: self._style.fields] if name in fields]
        names = _unique([*first, *islice(fields, self._style.fields)])[: self._style.fields]
        parts = [self._field(name, fields[name], name in first, depth + 1, active) for name in names]
        if len(fields) > self._style.fields:
            parts.append("[key: string]: any" if self._style.typescript else CUT)
        elif is_object(extra) and extra:
            parts.append(f"[key: string]: {_join(self._members(extra, depth + 1, active))}")
        return self._style.join_fields(parts)

    def _field(self, name: str, schema: Any, required: bool, depth: int, active: tuple[str, ...]) -> str:
        members = self._members(schema, depth, active)
        if not required and len(members) > 1 and self._resolve(schema, active)[0].get("default", CUT) is None:
            # `x?: string | null = null` would say three times that x may be left out.
            members = [member for member in members if member != "null"]
        return f"{property_name(name)}{'' if required else '?'}: {_join(members)}"

    def _fields(self, schema: JsonObject) -> tuple[dict[str, Any], list[str]]:
        fields = _dict(schema.get("properties"))
        self._work -= len(fields)
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        return dict(fields), list(dict.fromkeys(required))

    def _resolve(self, schema: Any, active: tuple[str, ...]) -> tuple[JsonObject, tuple[str, ...]]:
        """`schema` with its references resolved and its `allOf` merged; {} if it says nothing.

        `active` are the references on the way down to it. A reference to one of them is a cycle: the result
        is empty, and the last of the active ones is CUT.
        """
        merged: JsonObject = {}
        pending: list[Any] = [schema]
        while pending:
            part: Any = pending.pop()
            self._work -= 1
            if not is_object(part) or self._work < 0:
                continue
            if isinstance(reference := part.get("$ref"), str):
                if reference in active:
                    return {}, (*active, CUT)
                active = (*active, reference)
                pending.append(target(self._root, reference, True))
            pending.extend(_list(part.get("allOf"))[::-1])
            self._work -= len(_dict(part.get("properties")))
            own = part if "$ref" not in part and "allOf" not in part else _without(part, "$ref", "allOf")
            merged = _merge(merged, own) if merged else own
        return merged, active


def target(root: Any, reference: str, otherwise: Any) -> Any:
    """What a reference within the document points to; `otherwise` if it points nowhere or outside."""
    path, _, pointer = reference.partition("#")
    if path or (pointer and not pointer.startswith("/")):
        return otherwise
    return within(
        root, [step.replace("~1", "/").replace("~0", "~") for step in unquote(pointer).split("/")[1:]], otherwise
    )


def within(root: Any, path: Iterable[str | int], otherwise: Any) -> Any:
    """The value at `path` inside `root`, keys and positions, or `otherwise`."""
    current = root
    for step in path:
        if is_object(current) and step in current:
            current = current[str(step)]
        elif is_list(current) and str(step).isdecimal() and len(str(step)) < 7 and int(step) < len(current):
            current = current[int(step)]
        else:
            return otherwise
    return current


def property_name(name: str) -> str:
    """A name as written in a type: bare if it is an identifier, else quoted."""
    return name if _NAME.fullmatch(name) and len(name) <= _NAME_LENGTH else _quote(name, _NAME_LENGTH)


def literal(value: Any, limit: int = 40) -> str:
    """A JSON value on one line; a long one is cut with `…`."""
    if isinstance(value, str):
        return _quote(value, limit)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if -_BIG < value < _BIG else CUT
    if isinstance(value, float):
        return repr(value)
    if is_list(value):
        scalars = len(value) <= 8 and not any(isinstance(item, dict | list) for item in value)
        text = f"[{', '.join(literal(item, limit) for item in value)}]" if scalars else f"[{CUT}]"
        return text if len(text) <= limit else f"[{CUT}]"
    return "{}" if value == {} else f"{{{CUT}}}"


def _quote(text: str, limit: int) -> str:
    escaped = encode(text[:limit]).decode("utf-8", "replace")[1:-1]
    if not escaped.isprintable():
        # Escaped, not dropped: an invisible character is part of the value and must be visible.
        escaped = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in escaped)
    return f'"{escaped}{CUT if len(text) > limit else ""}"'


def _types(schema: JsonObject) -> list[str]:
    """The types that a schema names or implies."""
    named: Any = schema.get("type")
    if isinstance(named, str):
        named = [named]
    if is_list(named):
        kinds = [kind for kind in named[:16] if kind in _TYPES]
        return _unique([kind for kind in kinds if kind != "null"] + ["null"] * ("null" in kinds))
    if any(key in schema for key in ("properties", "required", "additionalProperties", "patternProperties")):
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    if any(key in schema for key in ("pattern", "minLength", "maxLength", "format")):
        return ["string"]
    return ["number"] if "minimum" in schema or "maximum" in schema or "multipleOf" in schema else []


def _union(schema: JsonObject) -> list[Any]:
    """The branches of `anyOf` or `oneOf`, without those that only restrict their siblings."""
    branches = _list(schema.get("anyOf")) or _list(schema.get("oneOf"))
    beside = any(key in schema for key in _SHAPE)
    return [
        branch
        for branch in branches[:_BRANCHES]
        if not beside or (is_object(branch) and any(key in branch for key in _TELLING if key != "required"))
    ]


def _merge(first: JsonObject, second: JsonObject) -> JsonObject:
    """Both combined. Keywords of `first` have priority, except that properties and required are merged."""
    merged = {**second, **first}
    if "properties" in first and "properties" in second:
        merged["properties"] = _dict(first["properties"]) | {
            name: value for name, value in _dict(second["properties"]).items() if name not in _dict(first["properties"])
        }
    if "required" in first and "required" in second:
        merged["required"] = [*_list(first["required"]), *_list(second["required"])]
    return merged


def _without(schema: JsonObject, *keys: str) -> JsonObject:
    return {key: value for key, value in schema.items() if key not in keys}


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    for python, name in (
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (dict, "object"),
        (list, "array"),
    ):
        if isinstance(value, python):
            return name
    return "null"


def _join(members: list[str]) -> str:
    return " | ".join(members)


def _unique(members: list[str]) -> list[str]:
    return list(dict.fromkeys(members))


def _dict(value: Any) -> JsonObject:
    return value if is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []
