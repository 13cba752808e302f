"""The modules of Python scripts: the engine's own, and those that we add.

Three kinds. The engine's own; functions of the standard library with plain data as input and output, which the driver
calls (`host_modules`); and code that must run inside the engine because it takes functions or keeps state, written in
Python in `prelude_python.txt` and run before the script (`section`). Loaded in the zygote, before the jail: nothing is
imported later. Knows nothing about a script's text; `rewriting.py` decides what it needs.
"""

import calendar
import difflib
import fnmatch
import html
import keyword
import shlex
import statistics
import string
import textwrap
import urllib.parse
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Any, NamedTuple

from pydantic_monty import ExternalModule

from wicket_mcp.scripts.languages import NO_NETWORK, PYTHON_MODULES


class _Parsed(NamedTuple):
    """A parsed URL. `hostname` and the rest are properties of the original; only fields are passed to the engine."""

    scheme: str
    netloc: str
    path: str
    params: str
    query: str
    fragment: str
    hostname: str | None
    port: int | None
    username: str | None
    password: str | None


def _urlparse(url: str, scheme: str = "", allow_fragments: bool = True) -> _Parsed:
    parsed = urllib.parse.urlparse(url, scheme, allow_fragments)
    return _Parsed(*parsed, parsed.hostname, parsed.port, parsed.username, parsed.password)


def _urlunparse(parts: Any) -> str:
    """Of six parts, of the five of `urlunsplit`, or of what `urlparse` gave."""
    known = tuple(parts)[:6]
    return str(urllib.parse.urlunsplit(known) if len(known) == 5 else urllib.parse.urlunparse(known))


def _ratio(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def _as_list(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> list[Any]:
        return list(function(*arguments, **options))

    return call


def _pick(module: ModuleType, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


_FUNCTIONS: Mapping[str, dict[str, Any]] = {
    "statistics": _pick(
        statistics,
        "mean fmean geometric_mean harmonic_mean median median_low median_high mode multimode quantiles stdev pstdev "
        "variance pvariance correlation covariance",
    ),
    "string": _pick(
        string,
        "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation whitespace capwords",
    ),
    "textwrap": _pick(textwrap, "dedent fill shorten wrap indent"),
    "html": _pick(html, "escape unescape"),
    "shlex": _pick(shlex, "split quote join"),
    "fnmatch": _pick(fnmatch, "fnmatch fnmatchcase filter translate"),
    "difflib": {
        "get_close_matches": difflib.get_close_matches,
        "unified_diff": _as_list(difflib.unified_diff),
        "ndiff": _as_list(difflib.ndiff),
        "ratio": _ratio,
    },
    "calendar": {
        **_pick(calendar, "monthrange isleap weekday timegm monthcalendar"),
        "month_name": list(calendar.month_name),
        "day_name": list(calendar.day_name),
        "month_abbr": list(calendar.month_abbr),
        "day_abbr": list(calendar.day_abbr),
    },
    "keyword": _pick(keyword, "iskeyword"),
    "zlib": _pick(zlib, "crc32 adler32"),
    "urllib.parse": {
        **_pick(urllib.parse, "quote quote_plus unquote unquote_plus urlencode parse_qs parse_qsl urljoin"),
        "urlparse": _urlparse,
        "urlsplit": _urlparse,
        "urlunparse": _urlunparse,
        "urlunsplit": _urlunparse,
    },
}


def host_modules() -> dict[str, ExternalModule]:
    """The modules that the engine imports from us, in its format."""
    modules = {name: ExternalModule(attributes) for name, attributes in _FUNCTIONS.items() if "." not in name}
    return modules | {"urllib": ExternalModule({"parse": ExternalModule(_FUNCTIONS["urllib.parse"])})}


def host_function(name: str) -> Callable[..., Any] | None:
    """The function that the engine means by `module.name`."""
    module, _, function = name.rpartition(".")
    value = _FUNCTIONS.get(module, {}).get(function)
    return value if callable(value) else None


_INSTEAD = {
    "requests httpx aiohttp urllib3 http socket": f"{NO_NETWORK} ",
    "zoneinfo pytz dateutil": "Offsets are written timezone(timedelta(hours=2)); a server for time knows the zones. ",
    "numpy pandas": "Use lists and dictionaries, statistics, and csv. ",
    "secrets": "Use random, or uuid. ",
    "subprocess sqlite3 tempfile shutil glob": "Scripts act by tools only. ",
}
"""What to use in place of modules that authors often want."""


@cache
def _sections() -> Mapping[str, str]:
    text = files("wicket_mcp.scripts").joinpath("prelude_python.txt").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("#: ")[1:]]
    return {name.strip(): code for name, _, code in parts}


def section(name: str) -> str:
    """The code that adds to the engine what it lacks of this module; empty if nothing is missing."""
    return _sections().get(name, "")


def missing_module(name: str) -> str:
    """The error message for a missing module."""
    instead = next((text for names, text in _INSTEAD.items() if name.partition(".")[0] in names.split()), "")
    return f"There is no module '{name}' in scripts. {instead}Modules: {', '.join(PYTHON_MODULES)}."


_sections()
