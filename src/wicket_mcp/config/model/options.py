"""The declarations of `model` as data, and the check of plain values against them.

Reads name, type, unit, default and help from any struct of options; knows none of them by name. `lenient` is for files
of other programs: unknown keys are ignored, and scalars are read as text if text is expected.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from wicket_mcp.config.model import units
from wicket_mcp.config.model.validation import InvalidOption, KeyPath, quote_names
from wicket_mcp.spelling import nearest

StructT = TypeVar("StructT", bound=msgspec.Struct)


class Option(msgspec.Struct, frozen=True):
    """One declared option. A section (a struct inside a struct) is an option whose `section` is set."""

    name: str
    kind: inspect.Type
    unit: str
    help: str
    default: Any

    @property
    def section(self) -> type[msgspec.Struct] | None:
        return self.kind.cls if isinstance(self.kind, inspect.StructType) else None

    @property
    def expected(self) -> str:
        return _expect(self.kind, self.unit)


@cache
def options_of(cls: type[msgspec.Struct]) -> dict[str, Option]:
    """The options of a struct, in order: its fields that have a description, and its sections."""
    options: dict[str, Option] = {}
    for field in msgspec.structs.fields(cls):
        kind, unit, text = inspect.type_info(field.type), "", ""
        if isinstance(kind, inspect.Metadata):
            text, unit = _note(kind, "extra_json_schema", "description"), _note(kind, "extra", "unit")
            kind = kind.type
        if isinstance(kind, inspect.StructType):
            text = (kind.cls.__doc__ or "").strip()
        if text:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            options[field.name] = Option(field.name, kind, unit, text, default)
    return options


def _note(metadata: inspect.Metadata, where: str, key: str) -> str:
    notes: Any = getattr(metadata, where)
    return str(notes.get(key, "")) if notes else ""


def build(
    cls: type[StructT],
    values: Mapping[str, Any],
    at: KeyPath = (),
    *,
    lenient: bool = False,
    beside: tuple[str, ...] = (),
    **fixed: Any,
) -> StructT:
    """An instance of `cls` from plain values; `fixed` are its fields that are not options. Raises InvalidOption.

    `beside` are keys that the caller reads itself; they are candidates for corrections of misspelt keys.
    """
    options = options_of(cls)
    arguments = dict(fixed)
    for key, value in values.items():
        option = options.get(key)
        if option is not None:
            arguments[key] = _read(option.kind, option.unit, value, (*at, key), lenient)
        elif not lenient:
            raise unknown_key(key, [*options, *beside], at)
    return cls(**arguments)


def unknown_key(key: str, known: Mapping[str, Any] | list[str], at: KeyPath) -> InvalidOption:
    near = nearest(key, known, 1)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known keys are {', '.join(known)}."
    return InvalidOption((*at, key), "unknown key.", hint)


def _read(kind: inspect.Type, unit: str, value: Any, path: KeyPath, lenient: bool) -> Any:
    match kind:
        case inspect.UnionType():  # always "or None", which a file cannot express
            inner = next(part for part in kind.types if not isinstance(part, inspect.NoneType))
            return _read(inner, unit, value, path, lenient)
        case inspect.StructType() if isinstance(value, Mapping):
            return build(kind.cls, cast("Mapping[str, Any]", value), path, lenient=lenient)
        case inspect.VarTupleType() if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            return tuple(_read(kind.item_type, "", item, (*path, index), lenient) for index, item in enumerate(items))
        case inspect.DictType() if isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            return {key: _read(kind.value_type, "", item, (*path, key), lenient) for key, item in pairs}
        case inspect.AnyType():
            return value
        case inspect.LiteralType() if isinstance(value, str):
            if value in kind.values:
                return value
            raise InvalidOption(path, f"'{value}' is not {_expect(kind, unit)}.")
        case _:
            return _scalar(kind, unit, value, path, lenient)


def _scalar(kind: inspect.Type, unit: str, value: Any, path: KeyPath, lenient: bool) -> Any:
    try:
        read = _UNITS.get(unit) or _SCALARS.get(type(kind), _refuse)
        result = read(_loosen(kind, value) if lenient else value)
    except ValueError:
        instead = "" if unit and isinstance(value, str) else f", not {_kind_of(value)}"
        raise InvalidOption(path, f"expected {_expect(kind, unit)}{instead}.") from None
    if isinstance(kind, inspect.IntType | inspect.FloatType) and not _within(kind, result):
        raise InvalidOption(path, f"expected {_expect(kind, unit)}.")
    if isinstance(result, str) and not _speakable(result):
        raise InvalidOption(path, "contains a NUL or half a surrogate pair, which cannot be passed to a program.")
    return result


def _loosen(kind: inspect.Type, value: Any) -> Any:
    """What a YAML or a client's JSON meant by a scalar of the wrong type."""
    if isinstance(kind, inspect.StrType) and isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(kind, inspect.StrType) and isinstance(value, int | float):
        return str(value)
    if isinstance(kind, inspect.StrType) and value is None:
        return ""
    if isinstance(kind, inspect.BoolType) and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if isinstance(kind, inspect.IntType) and isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _refuse(_value: Any) -> Any:
    raise ValueError


_SCALARS: dict[type, Callable[[Any], Any]] = {
    inspect.StrType: _text,
    inspect.BoolType: _flag,
    inspect.IntType: _whole,
}
_UNITS: dict[str, Callable[[Any], Any]] = {"duration": units.seconds, "size": units.size}


def _within(kind: inspect.IntType | inspect.FloatType, value: float) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
    )


def _speakable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or text.encode("utf-8", "ignore").decode("utf-8") == text)


def _expect(kind: inspect.Type, unit: str) -> str:
    match kind:
        case inspect.UnionType():
            return _expect(kind.types[0], unit)
        case inspect.LiteralType():
            return f"one of {quote_names([str(value) for value in kind.values])}"
        case inspect.VarTupleType():
            return "a list of strings" if isinstance(kind.item_type, inspect.StrType) else "a list"
        case inspect.DictType():
            return "a table of strings"
        case inspect.IntType() | inspect.FloatType():
            noun = {"duration": units.DURATION, "size": units.SIZE}.get(unit, "a whole number")
            return noun + _bounds(kind)
        case inspect.StrType():
            return "a string"
        case inspect.BoolType():
            return "true or false"
        case _:
            return "a table"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    if kind.ge is not None:
        return f", at least {kind.ge}"
    return f", more than {kind.gt}" if kind.gt is not None else ""


def _kind_of(value: Any) -> str:
    """The kind of a wrong value. Never the value: it may be a secret."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list | tuple) else "nothing" if value is None else "a date"
