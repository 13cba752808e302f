"""One input schema, compiled to check arguments: offline, in linear time, within fixed limits.

Owns the limits. A schema comes from an upstream and may be broken or hostile: parts that cannot be compiled are left
out if `repair` finds that safe, otherwise nothing is checked. Arguments that are too expensive to check also pass,
because the upstream checks them again. Knows nothing about tools or about the wording of errors.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject
from wicket_mcp.schema.repair import repair, spell_out, subschemas_with
from wicket_mcp.schema.typetext import is_list, is_object, literal, target, within

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_SIZE = 64 * 1024
_NODES = 8_000
_DEPTH = 64
_PATTERNS = 100
_PATTERN_MEMORY = 256 * 1024
_MENDS = 16
_MASK = "…"
_COST = 2_000_000  # the most steps of a check without references: values times subschemas, about 20 ns each
_STEPS = 10_000  # the same with references, where steps must be counted
_TOLD_ALL = 2_000  # a step of a check with explanations is a thousand times as expensive
_TOLD_ONE = 8_000
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "dependentSchemas")
_SAME_VALUE_ONE = ("not", "if", "then", "else")
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated", "format"})
"""Keywords that say nothing about which values are valid."""
_PLAIN_OBJECT = _NOTES | {"$schema", "type", "properties", "required", "additionalProperties"}
_CLASSES: Mapping[Any, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


_KEPT = 512


class Checker(msgspec.Struct, frozen=True):
    """A compiled schema; without a validator everything passes."""

    schema: JsonObject
    problem: str | None = None
    """What is not checked, and why."""
    validator: "Validator | None" = None
    weight: int = 1
    """How many parts the schema has."""
    refers: bool = False
    """Whether the schema has references, so that there may be more to check than its text shows."""
    plain: Mapping[str, tuple[type, ...]] = {}
    """The classes of values of the properties that have a type and no other condition."""
    required: frozenset[str] | None = None
    """The names that must be given; None if there are more conditions than these and the types."""

    def is_plain(self, arguments: JsonObject) -> bool:
        """Whether only plain properties are given, and are valid: so in most calls, and seen without the validator."""
        for name, value in arguments.items():
            if type(value) not in self.plain.get(name, ()):
                return False
        return self.required is not None and self.required <= arguments.keys()

    def errors(self, arguments: JsonObject) -> "list[ValidationError] | None":
        """The errors: an empty list if there are none, None if they are too expensive to list."""
        if self.validator is None or self.is_too_expensive(arguments):
            return []
        try:
            return [] if self.validator.is_valid(arguments) else self._explain(self.validator, arguments)
        except ValueError:  # a lone surrogate: the validator cannot read it, but JSON can carry it
            return self._check_readable(self.validator, arguments)

    def judge(self, arguments: JsonObject) -> bool | None:
        """Whether the arguments are valid; None if that cannot be found out."""
        if self.validator is None or self.is_too_expensive(arguments):
            return None
        try:
            return self.validator.is_valid(arguments)
        except ValueError:  # as above
            return None

    def is_too_expensive(self, arguments: JsonObject) -> bool:
        """Whether arguments are too large or too deep to be checked, so that every check lets them pass."""
        nodes, depth = _measure(arguments, _COST // self.weight)
        if depth > _DEPTH or nodes * self.weight > _COST:
            return True
        return self.refers and _steps(self.schema, arguments, _STEPS) > _STEPS

    def _check_readable(self, validator: "Validator", arguments: JsonObject) -> "list[ValidationError] | None":
        """Like `errors`, with a placeholder for unreadable characters, so that everything else is still checked."""
        readable = cast("JsonObject", _make_readable(arguments))
        try:
            return [] if validator.is_valid(readable) else self._explain(validator, readable)
        except ValueError:
            return []

    def _explain(self, validator: "Validator", arguments: JsonObject) -> "list[ValidationError] | None":
        steps = _steps(self.schema, arguments, _STEPS)
        if steps <= _TOLD_ALL:
            return list(validator.iter_errors(arguments))
        # An error in a union contains the errors of all its branches, recursively: even one may be too much.
        simple = not (subschemas_with(self.schema, "anyOf") or subschemas_with(self.schema, "oneOf"))
        return _first_error(validator, arguments) if simple or steps <= _TOLD_ONE else None


_compiled: OrderedDict[int, tuple[JsonObject, Checker]] = OrderedDict()
"""A pure cache for the whole process: the result depends only on the schema."""


def fits(definition: JsonObject, arguments: JsonObject) -> bool:
    """Whether `arguments` are known to fit a tool's input schema: the quick answer for nearly every call."""
    checker = find_checker(definition)
    return checker.is_plain(arguments) or (checker.problem is None and checker.errors(arguments) == [])


def find_checker(definition: JsonObject) -> Checker:
    """The checker for a tool's definition, cached while it is among the recently used."""
    # Keyed by identity: a definition never changes, and is too large to compare on each call. The entry keeps its
    # definition alive, so that its identity cannot be reused.
    identity = id(definition)
    entry = _compiled.get(identity)
    if entry is None:
        schema: Any = definition.get("inputSchema")
        checker = compile_schema(cast("JsonObject", schema) if isinstance(schema, dict) else {})
        entry = _compiled[identity] = (definition, checker)
        if len(_compiled) > _KEPT:
            _compiled.popitem(last=False)
    else:
        _compiled.move_to_end(identity)
    return entry[1]


def compile_schema(schema: JsonObject, *, check_formats: bool = False) -> Checker:
    """The checker for `schema`. Never raises. Servers use `format` as a note, so it is not checked unless told."""
    if problem := _over_limits(schema):
        return Checker(schema, f"{problem}: arguments pass unchecked")
    schema = spell_out(schema)
    left_out: list[str] = []
    while len(left_out) < _MENDS:
        outcome = _compile(schema, check_formats=check_formats)
        if not isinstance(outcome, Exception):
            if problem := _untraceable(schema):
                return Checker(schema, f"{problem}: arguments pass unchecked")
            problem = f"not checked: {'; '.join(left_out)}" if left_out else None
            plain, required = _plain_properties({} if problem else schema)
            weight, refers = _measure(schema, _NODES)[0], bool(subschemas_with(schema, "$ref"))
            return Checker(schema, problem, outcome, weight, refers, plain, required)
        path: list[Any] = list(getattr(outcome, "instance_path", ()))
        left_out.append(_reason(outcome, path, schema))
        better = repair(schema, path)
        if better is None:
            break
        schema = better
    return Checker(schema, f"{'; '.join(left_out[-2:])}: arguments pass unchecked")


def _plain_properties(schema: JsonObject) -> tuple[Mapping[str, tuple[type, ...]], frozenset[str] | None]:
    """The properties with a type and no other condition, and the required ones; None if the object has conditions."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not (schema.keys() <= _PLAIN_OBJECT and schema.get("type") == "object" and is_object(properties)):
        return {}, None
    if not is_list(required) or not all(isinstance(name, str) for name in required):
        return {}, None
    plain: dict[str, tuple[type, ...]] = {}
    for name, part in properties.items():
        if is_object(part) and part.keys() <= _NOTES | {"type"} and "type" in part:
            kinds: list[Any] = part["type"] if is_list(part["type"]) else [part["type"]]
            plain[name] = tuple(cls for kind in kinds if isinstance(kind, str) for cls in _CLASSES.get(kind, ()))
    return plain, frozenset(required)


def _make_readable(value: Any) -> Any:
    """`value` with a question mark in place of each lone surrogate."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if is_object(value):
        return {_make_readable(key): _make_readable(item) for key, item in value.items()}
    return [_make_readable(item) for item in value] if is_list(value) else value


def _compile(schema: JsonObject, *, check_formats: bool = False) -> "Validator | Exception":
    import jsonschema_rs  # noqa: PLC0415  (loaded by the first call that is checked, not by every start)

    try:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=check_formats,
            mask=_MASK,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_MEMORY),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        return problem


def _first_error(validator: "Validator", arguments: JsonObject) -> "list[ValidationError]":
    import jsonschema_rs  # noqa: PLC0415  (as above)

    try:
        validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _reason(problem: Exception, path: list[Any], schema: JsonObject) -> str:
    message = str(getattr(problem, "message", "") or problem).split("\n")[0]
    if path:
        message = message.replace(_MASK, literal(within(schema, path, None)), 1)
    return ": ".join(part for part in (".".join(map(str, path))[:100], message[:160]) if part)


def _over_limits(schema: JsonObject) -> str:
    nodes, depth = _measure(schema, _NODES)
    if depth > _DEPTH:
        return f"the input schema is nested more than {_DEPTH} deep"
    if nodes > _NODES:
        return f"the input schema has more than {_NODES} parts"
    if (size := len(encode(schema))) > _SIZE:
        return f"the input schema has {size // 1024} KiB, more than {_SIZE // 1024}"
    keyed: list[Any] = [part["patternProperties"] for part in subschemas_with(schema, "patternProperties")]
    patterns = len(subschemas_with(schema, "pattern")) + sum(len(part) for part in keyed if is_object(part))
    return f"the input schema has more than {_PATTERNS} patterns" if patterns > _PATTERNS else ""


def _untraceable(schema: JsonObject) -> str:
    """Why `_steps` cannot follow what the validator follows; empty if it can."""
    if subschemas_with(schema, "$dynamicRef") or subschemas_with(schema, "$recursiveRef"):
        return "the input schema refers to itself dynamically"
    references: list[Any] = [item["$ref"] for item in subschemas_with(schema, "$ref")]
    if any(isinstance(item, str) and target(schema, item, None) is None for item in references):
        return "the input schema refers to its parts by address or anchor"
    keys = ("$id", "id") if "draft-04" in str(schema.get("$schema")) else ("$id",)
    bases = [item for key in keys for item in subschemas_with(schema, key) if isinstance(item[key], str)]
    if references and any(item is not schema for item in bases):
        return "the input schema has parts with an address of their own"
    return ""


def _measure(value: Any, enough: int) -> tuple[int, int]:
    """How many values are inside `value`, and how deep; stops when either is too much."""
    if type(value) is dict:  # most arguments contain no nested values
        members = cast("JsonObject", value).values()
        for member in members:
            if member and isinstance(member, (dict, list)):
                break
        else:
            return 1 + len(members), 1
    nodes, depth = 1, 0
    level: list[Any] = [value]
    while level and nodes <= enough and depth <= _DEPTH:
        inner: list[Any] = []
        for part in level:
            parts: Collection[Any] = cast("JsonObject", part).values() if isinstance(part, dict) else part
            nodes += len(parts)
            inner += [member for member in parts if isinstance(member, (dict, list))]
        depth += 1
        level = inner
    return nodes, depth


def _steps(root: JsonObject, arguments: JsonObject, enough: int) -> int:
    """How often a value is checked against a subschema if every branch is followed; stops counting after `enough`.

    Thirty definitions that each refer twice to the next are a small text but a billion steps; so is a recursive one
    with two branches, on arguments nested thirty levels deep.
    """
    steps = 0
    pending: list[tuple[Any, Any]] = [(root, arguments)]
    while pending and steps <= enough:
        schema, value = pending.pop()
        steps += 1
        if not is_object(schema):
            continue
        if isinstance(reference := schema.get("$ref"), str):
            pending.append((target(root, reference, True), value))
        for keyword in _SAME_VALUE:
            if keyword in schema:  # ten thousand steps are taken on the event loop
                pending += [(branch, value) for branch in _several(schema[keyword])]
        pending.extend((schema[keyword], value) for keyword in _SAME_VALUE_ONE if keyword in schema)
        if is_object(value):
            pending.extend(_descent(schema, value))
        elif is_list(value):
            pending.extend(_elements(schema, value))
        if len(pending) > enough:  # pending work is counted too: one value may have a million parts
            return enough + 1
    return steps


_OF_ITEMS = frozenset({"items", "contains", "additionalItems", "unevaluatedItems", "prefixItems"})


def _elements(schema: JsonObject, value: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The items of a list with their schemas; the list is not walked for keywords that the schema lacks."""
    if _OF_ITEMS.isdisjoint(schema):
        return
    for keyword in ("items", "contains", "additionalItems", "unevaluatedItems"):
        inner: Any = schema.get(keyword)
        if is_object(inner):
            yield from ((inner, element) for element in value)
        elif is_list(inner):
            yield from zip(inner, value, strict=False)
    tuples: Any = schema.get("prefixItems")
    if is_list(tuples):
        yield from zip(tuples, value, strict=False)


def _descent(schema: JsonObject, value: JsonObject) -> Iterator[tuple[Any, Any]]:
    properties: Any = schema.get("properties")
    if is_object(properties):
        fewer, other = (properties, value) if len(properties) < len(value) else (value, properties)
        yield from ((properties[name], value[name]) for name in fewer if name in other)
    patterns: Any = schema.get("patternProperties")
    for inner in (*_several(patterns), schema.get("additionalProperties"), schema.get("unevaluatedProperties")):
        if is_object(inner):
            yield from ((inner, member) for member in value.values())


def _several(schemas: Any) -> list[Any]:
    if is_object(schemas):
        return list(schemas.values())
    return schemas if is_list(schemas) else []
