"""Which sections of a long output stay."""

from typing import Any

import pytest

from wicket_mcp.search.relevance import keep_relevant

PAD = "lorem ipsum " * 100
ITEMS = [{"title": title, "pad": PAD} for title in ("login fails", "colour of buttons", "login page slow", "docs", "x")]


@pytest.mark.parametrize(
    ("value", "intent", "kept"),
    [
        (ITEMS, "problems with the login", 2),
        ({"issues": ITEMS, "total": 5}, "login", 2),
        ("\n\n".join(f"{one['title']} {PAD}" for one in ITEMS), "buttons", 1),
        ("\n".join(["other line"] * 700 + ["the needle"] + ["other line"] * 60), "needle", 1),
    ],
)
def test_sections_that_share_words_stay(value: Any, intent: str, kept: int) -> None:
    part = keep_relevant(value, intent)
    assert part is not None
    assert part.kept == kept
    assert part.total >= 5


def test_an_object_keeps_what_is_not_its_bulk() -> None:
    part = keep_relevant({"issues": ITEMS, "total": 5}, "login")
    assert part is not None
    assert part.value["total"] == 5
    assert [one["title"] for one in part.value["issues"]] == ["login fails", "login page slow"]


@pytest.mark.parametrize("intent", ["", "the of", "nothing of the sort: zebra", "lorem"])
def test_an_intent_that_tells_nothing_apart_changes_nothing(intent: str) -> None:
    assert keep_relevant(ITEMS, intent) is None


def test_a_short_output_is_left_alone() -> None:
    assert keep_relevant(["login", "other"], "login") is None
