"""Keeps secrets out of what people read: the only place that recognises and masks secrets.

Recognises secrets in three ways: by configured values (`Redactor`), by names that suggest a secret (`is_secret_name`),
and by typical places in addresses and command lines (`mask_url`, `mask_arguments`). Knows no configuration and no
server; errors, logs, listings and `wicket import` call it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from wicket_mcp.telemetry.known import KNOWN, MASK, SHORTEST_SECRET, parts_of, pattern_of
from wicket_mcp.telemetry.log import clean, cut

__all__ = ["KNOWN", "MASK", "SHORTEST_SECRET", "Redactor", "is_secret_name", "mask_arguments", "mask_members"]
__all__ += ["mask_assignments", "mask_strings", "mask_url", "url_secrets"]

_LONGEST_PLAIN_SEGMENT = 15  # a longer piece of a path may be a key, as in https://host/api/SECRET/mcp
_LONGEST_PLAIN_WORD = 23  # a longer word without a slash, dot or space is more likely a key than a name
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ASSIGNMENT = re.compile(r"(?<![\w-])([\w-]++)([\"']?\s?[=:]\s?[\"']?(?:[Bb]earer )?)([^\s\"',;]+)")
_KEY_LIKE = re.compile(r"[A-Za-z0-9_+=-]+")
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "key", "pass", "passphrase"}
    | {"passwd", "password", "pat", "pwd", "secret", "token"}
)
_SECRET_ENDINGS = ("apikey", "passwd", "password", "secret", "token")


class Redactor:
    """Masks the given values wherever they appear, each line of multi-line ones, and all `KNOWN` ones."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._pattern = pattern_of(parts_of(secrets))

    def __call__(self, text: str, limit: int | None = None) -> str:
        """`text`, masked and safe to show. It is masked before it is cut, so that no half of a secret remains."""
        safe = clean(text)
        masked = self._pattern.sub(MASK, safe) if self._pattern else safe
        return cut(KNOWN.mask(masked), limit)


def mask_strings(value: Any) -> Any:
    """JSON with every known secret in its texts masked; unchanged if there is none."""
    if isinstance(value, str):
        return KNOWN.mask(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {KNOWN.mask(key): mask_strings(member) for key, member in members.items()}
    if isinstance(value, list):
        return [mask_strings(member) for member in cast("list[Any]", value)]
    return value


def mask_members(value: Any) -> Any:
    """JSON in which every value whose name suggests a secret is masked."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {key: MASK if is_secret_name(key) and member else mask_members(member) for key, member in members}
    if isinstance(value, list):
        return [mask_members(member) for member in cast("list[Any]", value)]
    return value


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or flag of this name holds a secret: `STARS_KEY`, `accessToken`, `--api-key`."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _SECRET_WORDS) or any(word.endswith(_SECRET_ENDINGS) for word in words)


def mask_assignments(text: str) -> str:
    """`text` without the values that it assigns to secret names: `token=…`, `API_KEY: …`."""

    def mask(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{MASK}" if is_secret_name(match[1]) else match[0]

    return _ASSIGNMENT.sub(mask, text)


def mask_url(url: str) -> str:
    """`url` without user, query, fragment, and path segments long enough to be keys."""
    try:
        split = urlsplit(url)
        host = _host(split)
    except ValueError:
        return "its address"
    path = "/".join(part if len(part) <= _LONGEST_PLAIN_SEGMENT else "…" for part in split.path.split("/"))
    return f"{split.scheme}://{host}{path}"


def url_secrets(url: str) -> list[str]:
    """Everything in `url` that may be a secret; the whole url if it cannot be parsed."""
    try:
        split = urlsplit(url)
    except ValueError:
        return [url]
    segments = [segment for segment in split.path.split("/") if len(segment) > _LONGEST_PLAIN_SEGMENT]
    return [*(value for _, value in parse_qsl(split.query)), *segments, split.password or "", split.username or ""]


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """A command's arguments without values after a word that suggests a secret, and without those that look like
    one.
    """
    safe: list[str] = []
    announced = False
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        is_pair = bool(equals) and "://" not in flag
        if announced and not argument.startswith("-"):
            safe.append(MASK)
            announced = False
            continue
        announced = argument.startswith("-") and not is_pair and is_secret_name(argument)
        if is_pair and is_secret_name(flag):
            safe.append(f"{flag}={MASK}")
        elif is_pair and "://" in value:
            safe.append(f"{flag}={mask_url(value)}")
        elif "://" in argument:
            safe.append(mask_url(argument))
        elif len(argument) > _LONGEST_PLAIN_WORD and _KEY_LIKE.fullmatch(argument):
            safe.append(MASK)
        else:
            safe.append(argument)
    return safe


def _host(split: SplitResult) -> str:
    name = split.hostname or ""
    bracketed = f"[{name}]" if ":" in name else name
    return f"{bracketed}:{split.port}" if split.port else bracketed
