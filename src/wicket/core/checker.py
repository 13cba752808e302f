"""One input schema, compiled to check arguments: offline, in linear time, within fixed bounds.

Owns the limits. A schema comes from an upstream and may be broken or hostile: what cannot be compiled is left
out where `mending` finds that safe, else nothing is checked. Arguments that would cost too much to check pass
unchecked too, for the upstream checks them again. Knows nothing of tools or of wording.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wicket.codec import encode
from wicket.core.mending import holding, mended, spelled_out
from wicket.core.typetext import is_list, is_object, target
from wicket.model import JsonObject

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_DEFINITIONS = frozenset({"$defs", "definitions"})
_SIZE = 64 * 1024
_NODES = 8_000
_DEPTH = 64
_PATTERNS = 100
_PATTERN_MEMORY = 256 * 1024
_MENDS = 16
_STACK = 300  # calls deep, for a chain of references has no end that the document shows
_COST = 10_000_000  # steps of a yes-or-no check, some 20 ns each
_TOLD = 20_000  # steps of a check that explains itself, each a thousand times as dear


@dataclass(frozen=True, slots=True)
class Checker:
    """A compiled schema; without a validator it lets everything pass."""

    schema: JsonObject
    problem: str | None = None
    """What is not checked, and why."""
    validator: "Validator | None" = None
    weight: int = 1
    """How many subschemas one value meets at most, references written out."""
    growth: int = 1
    """By how much that multiplies with each level of a recursive schema."""

    def errors(self, arguments: JsonObject) -> "list[ValidationError] | None":
        """What is wrong: an empty list for nothing, None for something that would cost too much to tell."""
        if self.validator is None:
            return []
        nodes, depth = _measured(arguments, _COST // self.weight)
        if depth > _DEPTH:
            return []
        meets = self.weight * self.growth**depth
        if nodes * meets > _COST:
            return []
        try:
            if self.validator.is_valid(arguments):
                return []
            if nodes * meets <= _TOLD:
                return list(self.validator.iter_errors(arguments))
            return _first_error(self.validator, arguments) if meets <= _TOLD else None
        except ValueError:
            return []  # A lone surrogate: the validator cannot read it, yet the wire can carry it.


def compiled(schema: JsonObject) -> Checker:
    """The checker for `schema`. Never raises."""
    if problem := _over_limits(schema):
        return Checker(schema, f"{problem}: arguments pass unchecked")
    schema = spelled_out(schema)
    left_out: list[str] = []
    while len(left_out) < _MENDS:
        outcome = _compile(schema)
        if not isinstance(outcome, Exception):
            weight, growth = _weighed(schema, schema, {}, (), 0)
            problem = f"not checked: {'; '.join(left_out)}" if left_out else None
            return Checker(schema, problem, outcome, weight, max(growth, 1))
        left_out.append(_reason(outcome))
        better = mended(schema, list(getattr(outcome, "instance_path", ())))
        if better is None:
            break
        schema = better
    return Checker(schema, f"{'; '.join(left_out[-2:])}: arguments pass unchecked")


def _compile(schema: JsonObject) -> "Validator | Exception":
    import jsonschema_rs  # noqa: PLC0415  (loaded by the first call that is checked, not by every start)

    try:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=False,
            mask="…",
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


def _reason(problem: Exception) -> str:
    path = ".".join(str(step) for step in getattr(problem, "instance_path", ()))
    message = str(getattr(problem, "message", "") or problem).split("\n")[0]
    return f"{path[:100]}: {message[:160]}" if path else message[:160]


def _over_limits(schema: JsonObject) -> str:
    nodes, depth = _measured(schema, _NODES)
    if depth > _DEPTH:
        return f"the input schema is nested more than {_DEPTH} deep"
    if nodes > _NODES:
        return f"the input schema has more than {_NODES} parts"
    if (size := len(encode(schema))) > _SIZE:
        return f"the input schema has {size // 1024} KiB, more than {_SIZE // 1024}"
    keyed: list[Any] = [one["patternProperties"] for one in holding(schema, "patternProperties")]
    patterns = len(holding(schema, "pattern")) + sum(len(one) for one in keyed if is_object(one))
    return f"the input schema has more than {_PATTERNS} patterns" if patterns > _PATTERNS else ""


def _measured(value: Any, enough: int) -> tuple[int, int]:
    """How many values there are inside `value`, and how deep; stops counting where either is too much."""
    nodes, depth = 1, 0
    level: list[Any] = [value]
    while level and nodes <= enough and depth <= _DEPTH:
        inner: list[Any] = []
        for one in level:
            if is_object(one):
                inner.extend(one.values())
            elif is_list(one):
                inner.extend(one)
        nodes += len(inner)
        depth += 1
        level = inner
    return nodes, depth


def _weighed(
    schema: Any, root: JsonObject, known: dict[str, tuple[int, int]], active: tuple[str, ...], depth: int
) -> tuple[int, int]:
    """The size of `schema` with its references written out, and how many of them lead back to where it is.

    Thirty definitions that each refer twice to the next are small on the wire and a thousand million checks in
    memory; so is a recursive one with two ways down, on arguments nested thirty deep.
    """
    if depth > _STACK:
        return _COST, 1
    if is_list(schema):
        parts = [_weighed(one, root, known, active, depth + 1) for one in schema]
    elif is_object(schema):
        inner = [one for key, one in schema.items() if key not in _DEFINITIONS]
        parts = [_weighed(one, root, known, active, depth + 1) for one in inner]
        if isinstance(reference := schema.get("$ref", schema.get("$dynamicRef")), str):
            if reference in active:
                return 1, 1
            if reference not in known:
                aim = target(root, reference, True)
                known[reference] = _weighed(aim, root, known, (*active, reference), depth + 1)
            parts.append(known[reference])
    else:
        return 1, 0
    return min(_COST, 1 + sum(weight for weight, _ in parts)), min(_COST, sum(back for _, back in parts))
