"""What a query wants done decides between tools about the same thing."""

import pytest

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.intent import (
    CONTRARY,
    OTHER_ACT,
    SAME_ACT,
    act,
    is_negated,
    join_negations,
    wanted_act,
    wants_change,
    weigh_acts,
)


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


@pytest.mark.parametrize(
    ("query", "tool", "same"),
    [
        ("create a user", "create_user", True),
        ("please throw away the user", "delete_user", True),
        ("what users are there", "list_users", True),
        ("set up a user", "create_user", True),
        ("write down a user", "user_get", False),
        ("the user", "create_user", None),
        ("turn off the user", "set_user", None),
    ],
)
def test_the_verb_of_a_query_is_compared_with_the_tool(query: str, tool: str, same: bool | None) -> None:
    gain = weigh_acts(wanted_act(query))[act(Tool("users", tool, {}))]
    assert gain == {True: SAME_ACT, False: -OTHER_ACT, None: 0.0}[same]


def test_a_tool_without_a_verb_in_its_name_is_known_by_its_description() -> None:
    assert act(Tool("a", "user", {"description": "Deletes a user"})) == wanted_act("delete it")
    assert act(Tool("list", "list_user", {"description": "Searches users"})) == wanted_act("search")
    assert act(Tool("a", "user", {"description": "A user"})) == wanted_act("") == 0


def test_a_long_schema_is_no_reason_to_do_the_contrary(index: SearchIndex) -> None:
    assert index.search("create an ElastiCache serverless cache").hits[0].tool.name == "create-serverless-cache"


def test_each_errand_is_served_by_what_its_verb_says(index: SearchIndex) -> None:
    answer = index.search("show the bucket and delete the old user")
    assert [part.tools[0] for part in answer.parts] == [
        "awslabs-s3-tables.list_table_buckets",
        "awslabs-iam.delete_user",
    ]
