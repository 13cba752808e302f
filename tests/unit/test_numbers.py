"""Numbers of peers: JSON has integers that no float can hold."""

import pytest

from wicket_mcp.model import JsonObject, as_seconds
from wicket_mcp.surface.under_way import describe_progress


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(1500, 1.5), (0.5, 0.0005), (-3, 0.0), (10**400, 366 * 86_400.0), (-(10**400), 0.0), (1e308, 366 * 86_400.0)],
)
def test_any_number_of_milliseconds_is_a_time_to_wait(milliseconds: float, seconds: float) -> None:
    assert as_seconds(milliseconds) == seconds


@pytest.mark.parametrize("other", [None, True, "5", [], {}])
def test_what_is_no_number_is_none(other: object) -> None:
    assert as_seconds(other) is None


@pytest.mark.parametrize(
    ("params", "words"),
    [({"progress": 10**400, "total": 1}, "1e+99 of 1"), ({"progress": 1, "total": 10**400}, "1 of 1e+99")],
)
def test_progress_of_any_size_can_be_shown(params: JsonObject, words: str) -> None:
    assert describe_progress(params) == words
