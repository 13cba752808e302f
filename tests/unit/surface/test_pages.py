"""Pages of a list that changes while a client reads it."""

import pytest

from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Silent
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.protocol import Request

pytestmark = pytest.mark.unit


def read(names: str, cursor: str | None = None) -> tuple[str, str | None]:
    """The names on one page of three, and the cursor of the next."""
    params: JsonObject = {} if cursor is None else {"cursor": cursor}
    request = Request(1, "x/list", params, Silent(), modern=True)
    page = build_page(request, "xs", [{"name": name} for name in names], "name", 3)
    return "".join(entry["name"] for entry in page["xs"]), page.get("nextCursor")


@pytest.mark.parametrize(
    ("now", "rest"),
    [("abcdefg", "def"), ("acdefg", "def"), ("xabcdefg", "def"), ("abdefg", "def"), ("ab", ""), ("", "")],
    ids=["unchanged", "one before is gone", "one before is new", "the last is gone", "nothing follows", "empty"],
)
def test_a_page_goes_on_behind_the_last_entry(now: str, rest: str) -> None:
    first, cursor = read("abcdefg")
    assert (first, read(now, cursor)[0]) == ("abc", rest)


def test_no_page_is_empty_and_the_last_has_no_cursor() -> None:
    assert read("abc") == ("abc", None)
    second, more = read("abcdef", read("abcdef")[1])
    assert (second, more) == ("def", None)


def test_a_cursor_of_somebody_else_is_rejected() -> None:
    with pytest.raises(BadArguments):
        read("abc", "made up")
