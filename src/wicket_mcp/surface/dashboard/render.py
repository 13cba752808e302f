"""Renders templates. All inserted values are escaped and cleaned of characters that hide or reorder text."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from wicket_mcp import __version__
from wicket_mcp.model import name_of
from wicket_mcp.store.audit_file import estimate_tokens
from wicket_mcp.store.records import SUCCESSES
from wicket_mcp.surface.dashboard.figures import HEIGHT, WIDTH, ago, milliseconds, short
from wicket_mcp.telemetry.log import clean

PAGES = ("overview", "servers", "tools", "search", "activity", "approvals", "tokens", "access", "settings")


def _clean(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _ago(at: float) -> str:
    return ago(at, time.time())


def _segment(text: str) -> str:
    return quote(text, safe="")


_environment = Environment(
    loader=PackageLoader("wicket_mcp.surface.dashboard"),
    autoescape=True,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS: dict[str, Any] = {
    "ms": milliseconds,
    "short": short,
    "moment": _moment,
    "ago": _ago,
    "tokens": estimate_tokens,
    "segment": _segment,
    "who": name_of,
}
_GLOBALS: dict[str, Any] = {
    "version": __version__,
    "pages": PAGES,
    "successes": SUCCESSES,
    "chart_width": WIDTH,
    "chart_height": HEIGHT,
}
_environment.filters.update(_FILTERS)
_environment.globals.update(_GLOBALS)


def render(name: str, values: Mapping[str, Any]) -> str:
    return _environment.get_template(name).render(values)


_FIRST_PAGE = ("base.html", "overview.html", "overview_live.html", "macros.html")


def load_templates(*, first_page: bool) -> None:
    """Compile those of the first page, or all others; a page that needs one sooner compiles it itself."""
    others = (name for name in _environment.list_templates() if name not in _FIRST_PAGE)
    for name in _FIRST_PAGE if first_page else others:
        _environment.get_template(name)
