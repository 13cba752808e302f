"""Writes docs/eras.md from the table: python -m tests.eras.document"""

from collections.abc import Iterator
from itertools import product

from tests.conftest import ROOT
from tests.eras.table import (
    ERAS,
    EVERYTHING,
    EVERYTHING_LINKS,
    FEATURES,
    LINKS,
    NAMED,
    Dialect,
    Era,
    Feature,
    Link,
    notes,
)
from wicket_mcp.model import LATEST_LEGACY_VERSION, MODERN_VERSION

FILE = ROOT / "docs" / "eras.md"
NAMES: dict[Era, str] = {"legacy": f"legacy, up to {LATEST_LEGACY_VERSION}", "modern": f"modern, {MODERN_VERSION}"}
SHOWN = {"stdio": "stdio", "http": "HTTP"}

INTRODUCTION = """\
# Both protocol eras, in every combination

The Model Context Protocol has two eras. In the *legacy* era, up to {legacy}, client and server begin with a handshake,
and then both can send requests. In the *modern* era, from {modern} on, every request is independent, and a server asks
something by ending its answer with `input_required`. Wicket speaks both eras with clients and with servers, in every
combination.

Every cell below is a test with real parts: the official SDK's client, Wicket as a process, and a server that speaks
only one era. ✓ means that the feature works from end to end. A number means that it works as far as the protocol
allows; the [notes](#notes) say what that is, and it is tested too. Features that agents use through `call_tool` are
tested in the dialects `flat` and `native`, the others in `flat`.

To run some of the cells: `scripts/test tests/eras -k "elicitation and modern-legacy"`. This page is written by
`python -m tests.eras.document`.
"""

PUBLISHED = """
## A published server of the legacy era

The same with `@modelcontextprotocol/server-everything` from npm, behind Wicket, for clients of both eras.
"""


def page() -> str:
    """The whole document."""
    parts = [INTRODUCTION.format(legacy=LATEST_LEGACY_VERSION, modern=MODERN_VERSION)]
    for client, upstream in product(ERAS, ERAS):
        parts.append(f"\n## Client {client}, server {upstream}\n\n{NAMES[client]} → {NAMES[upstream]}\n\n")
        links = [link for link in LINKS if (link.client, link.upstream) == (client, upstream)]
        parts += _table(FEATURES, links, [_ways(link) for link in links])
    parts.append(f"{PUBLISHED}\n")
    links = list(EVERYTHING_LINKS)
    parts += _table(EVERYTHING, links, [f"{link.client} {_ways(link)}" for link in links])
    parts.append("\n## Notes\n\n")
    parts += [f"{number}. {named.reason}\n" for number, named in enumerate(NAMED, 1)]
    return "".join(parts)


def _ways(link: Link) -> str:
    return f"{SHOWN[link.near]} → {SHOWN[link.far]}"


def _table(features: tuple[Feature, ...], links: list[Link], heads: list[str]) -> Iterator[str]:
    yield _row(["feature", "dialects", *heads])
    yield _row(["---", "---", *(":-:" for _ in heads)])
    for feature in features:
        yield _row([feature.title, _dialects(feature.dialects), *(_mark(feature, link) for link in links)])


def _dialects(dialects: tuple[Dialect, ...]) -> str:
    return ", ".join(dialects)


def _mark(feature: Feature, link: Link) -> str:
    numbers = notes(feature.key, link)
    return "✓" if not numbers else ", ".join(f"[{number}](#notes)" for number in numbers)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    FILE.write_text(page())
