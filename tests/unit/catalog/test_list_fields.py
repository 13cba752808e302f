"""Fields beside the entries of lists: nothing is lost, and no server's value is taken for another's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.catalog.list_fields import LISTS, combine, unknown_fields

pytestmark = pytest.mark.unit

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.integers(0, 2) | st.booleans() | st.none() | st.lists(st.integers(0, 1), max_size=2)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=3)


def page_of(top: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    return {**top, "_meta": meta} if meta else top


PAGES = st.builds(page_of, FIELDS, FIELDS)
SERVERS = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.lists(PAGES, max_size=3).map(tuple))


def same(first: Any, second: Any) -> bool:
    return repr(first) == repr(second)  # 1 and True are not the same


@given(SERVERS)
def test_every_field_of_every_page_is_found_again(by_server: dict[str, tuple[dict[str, Any], ...]]) -> None:
    combined = combine(by_server)
    differing = combined.get("_meta", {}).get(LISTS, {})
    for server, pages in by_server.items():
        kept = iter(differing.get(server, ()))
        for page in pages:
            meta = page.get("_meta", {})
            left = {name: value for name, value in page.items() if name != "_meta" and name not in combined}
            left_meta = {name: value for name, value in meta.items() if name not in combined.get("_meta", {})}
            if left or left_meta:
                assert next(kept) == {**left, **({"_meta": left_meta} if left_meta else {})}
            for name in page.keys() & combined.keys() - {"_meta"}:
                assert same(combined[name], page[name])
            for name in meta.keys() & combined.get("_meta", {}).keys():
                assert same(combined["_meta"][name], meta[name])
        assert next(kept, None) is None


@given(SERVERS)
def test_only_what_differs_is_kept_by_server(by_server: dict[str, tuple[dict[str, Any], ...]]) -> None:
    for pages in combine(by_server).get("_meta", {}).get(LISTS, {}).values():
        for page in pages:
            for name in page.keys() - {"_meta"}:
                values = {repr(other[name]) for each in by_server.values() for other in each if name in other}
                assert len(values) > 1


def test_what_the_protocol_knows_is_not_taken_along() -> None:
    page: dict[str, Any] = {
        "tools": [],
        "nextCursor": "x",
        "ttlMs": 1,
        "cacheScope": "public",
        "resultType": "complete",
        "mine": 1,
    }
    about = {"io.modelcontextprotocol/serverInfo": {"name": "x"}}
    assert unknown_fields({**page, "_meta": about}, "tools") == {"mine": 1}
    assert unknown_fields({**page, "_meta": {**about, "k": 2}}, "tools") == {"mine": 1, "_meta": {"k": 2}}
