"""Converts the Python values of a script to JSON, or raises an error that says where the problem is.

Pure. Dates become ISO text, tuples and sets become lists, dataclass instances become objects; the error names a value
that JSON cannot represent.
"""

import math
from datetime import date, time
from decimal import Decimal
from typing import Any

from wicket_mcp.scripts.limits import MAX_DEPTH, MAX_DIGITS

_TOO_LONG = 10**MAX_DIGITS


class NotJson(ValueError):
    """A value that JSON cannot represent; says which."""


def to_json(value: Any, path: str, depth: int = 1) -> Any:
    """`value` as JSON data. Raises NotJson."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _whole(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{path} is {value}, which JSON cannot carry")
        return value
    if depth > MAX_DEPTH:
        raise NotJson(f"{path[:200]} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {(name := _key(k, path)): to_json(v, f"{path}.{name}", depth + 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    attributes: Any = getattr(value, "attributes", None)
    if isinstance(attributes, dict):  # an instance of a class that the script defined
        return to_json(attributes, path, depth)
    raise NotJson(f"{path} is a {type(value).__name__}: only data can be sent")


def _whole(number: int, path: str) -> int:
    if -_TOO_LONG < number < _TOO_LONG:
        return number
    raise NotJson(f"{path} is a whole number of more than {MAX_DIGITS:,} digits: send what you need of it")


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_whole(key, f"a key of {path}"))
    raise NotJson(f"{path} has a key that is a {type(key).__name__}: only text and numbers can be keys")
