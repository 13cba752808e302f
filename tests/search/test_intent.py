"""What a query wants done decides between tools about the same thing."""

import pytest

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.intent import CONTRARY, is_negated, join_negations, wants_change


@pytest.mark.parametrize(
    ("query", "change"),
    [
        ("show the latest commits", False),
        ("which files have uncommitted changes", False),
        ("please list the tables", False),
        ("write text into a file", True),
        ("Could you delete the branch", True),
        ("the weather in Oslo", None),
        ("put the kettle on", None),
        ("", None),
    ],
)
def test_a_query_asks_for_a_change_or_for_a_look_or_does_not_say(query: str, change: bool | None) -> None:
    assert wants_change(query) is change


def test_a_negation_is_joined_where_a_tool_has_the_word() -> None:
    def counts(words: object) -> list[int]:
        return [int(words == ["unstaged"])]

    assert join_negations("changes that are not yet staged", counts) == "changes that are unstaged"
    assert join_negations("changes that are not reviewed", counts) == "changes that are not reviewed"


@pytest.mark.parametrize(("text", "negated"), [("uncommitted work", True), ("not yet staged", True), ("united", False)])
def test_what_has_not_been_done_is_a_negation(text: str, negated: bool) -> None:
    assert is_negated(text) is negated


def git(*, hints: bool) -> SearchIndex:
    texts = {
        "git_commit": ("Records changes to the repository", False),
        "git_log": ("Shows the commit logs", True),
        "git_diff_staged": ("Shows changes that are staged for commit", True),
        "git_diff_unstaged": ("Shows changes in the working directory that are not yet staged", True),
        "read_text_file": ("Read the complete contents of a file as text", True),
        "write_file": ("Create a new file with new text content", False),
    }
    tools = [
        Tool("git", name, {"description": text, "annotations": {"readOnlyHint": reads} if hints else {}})
        for name, (text, reads) in texts.items()
    ]
    return SearchIndex.build([Listing("git", tools=tuple(tools))])


def test_the_contrary_of_what_is_wanted_loses() -> None:
    query, plain, declared = "show the commit", git(hints=False), git(hints=True)
    before = {hit.tool.name: hit.score for hit in plain.search(query, limit=6).hits}
    after = {hit.tool.name: hit.score for hit in declared.search(query, limit=6).hits}
    assert after["git_commit"] == pytest.approx(before["git_commit"] - CONTRARY, abs=1e-5)
    assert after["git_log"] == pytest.approx(before["git_log"], abs=1e-5)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("show the changes that are not staged yet", "git_diff_unstaged"),
        ("show the changes that are staged", "git_diff_staged"),
        ("which files have uncommitted changes", "git_diff_unstaged"),
        ("write text into a file", "write_file"),
        ("read the text of a file", "read_text_file"),
    ],
)
def test_the_first_hit_does_what_is_wanted(query: str, first: str) -> None:
    assert git(hints=True).search(query).hits[0].tool.name == first
