"""Typing errors in queries."""

from collections.abc import Sequence

import pytest

from wicket_mcp.search import SearchIndex
from wicket_mcp.search.misspelling import correct
from wicket_mcp.search.static import packaged_table

_OFTEN = ("dns", "back", "stash", "stats", "open", "one", "pdf", "issue", "list", "screenshot", "create", "customers")
COMMON = {
    **dict.fromkeys(_OFTEN, 30_000),
    "costumers": 20_001,
    "time": 39_000,
    "rotary": 1_000,
    "teh": 18_000,
    "form": 39_000,
}
KNOWN = {
    "stash": 2,
    "stats": 9,
    "open": 3,
    "one": 8,
    "pdf": 4,
    "issue": 7,
    "screenshot": 5,
    "list": 40,
    "create": 9,
    "iso": 90,
    "isoe": 90,
    "lits": 1,
    "creat": 9,
    "wobblr": 2,
    "delet": 5,
    "dsn": 1,
    "dns": 9,
    "bakc": 2,
    "back": 9,
}


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("stahs it", "stash it"),
        ("opne the isue", "open the issue"),
        ("to pfd", "to pdf"),
        ("screnshot, please", "screenshot, please"),
        ("Stahs it", "Stahs it"),
        ("a/stahs/x stahs.txt x_stahs stahs@example.org", "a/stahs/x stahs.txt x_stahs stahs@example.org"),
        ("pet pxf", "pet pxf"),
        ("all custmers", "all customers"),
        ("stash stahs", "stash stash"),
        ("the tiem", "the time"),
        ("lits it", "list it"),
        ("creat it", "create it"),
        ("a dsn, a bakc", "a dsn, a bakc"),
        ("my wobbblr", "my wobblr"),
        ("a notary", "a notary"),
        ("teh form, taht one", "the form, that one"),
        ("word", "word"),
        ("", ""),
    ],
)
def test_an_unknown_word_becomes_the_known_one_that_is_a_slip_away(query: str, corrected: str) -> None:
    def counts(words: Sequence[str]) -> list[int]:
        return [KNOWN.get(word, 0) for word in words]

    def commonness(words: Sequence[str]) -> list[int]:
        return [COMMON.get(word, 0) for word in words]

    assert correct(query, counts, commonness, {*COMMON, "word", "pet", "please", "all"}.__contains__) == corrected


def test_the_table_tells_which_word_is_more_common() -> None:
    file, customers, unknown = packaged_table().commonness(["file", "customers", "custmers"])
    assert file > customers > unknown == 0


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("serach my gmial", "google-workspace.search_gmail_messages"),
        ("redsi hash get al feilds", "redis.hgetall"),
        ("lihgthouse audti", "chrome-devtools.lighthouse_audit"),
        ("curent tiem in tokio", "time.get_current_time"),
    ],
)
def test_a_misspelt_request_finds_its_tool(index: SearchIndex, query: str, wanted: str) -> None:
    assert wanted in [hit.tool.key for hit in index.search(query).hits]
