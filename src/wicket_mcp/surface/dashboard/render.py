"""Renders templates. All inserted values are escaped and cleaned of characters that hide or reorder text."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from wicket_mcp import __version__
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


def load_templates() -> None:
    """Compile every template, the first page's first; a page that needs one meanwhile compiles it itself."""
    for name in ("base.html", "overview.html", "overview_live.html", "macros.html", *_environment.list_templates()):
        _environment.get_template(name)
