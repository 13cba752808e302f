"""Queries that ask for several things."""

import pytest

from wicket_mcp.search import SearchIndex
from wicket_mcp.search.errands import split_errands


@pytest.mark.parametrize(
    ("query", "errands"),
    [
        (
            "Read the sales table, then mail me the total amount",
            ["Read the sales table", "mail me the total amount"],
        ),
        ("Download the icons, commit them and push", ["Download the icons", "commit them", "push"]),
        ("What time is it? Book a room.", ["What time is it?", "Book a room."]),
        ("stage the files; tag the commit", ["stage the files", "tag the commit"]),
        ("search and replace", ["search and replace"]),
        ("find flights to Paris, Rome and Oslo", ["find flights to Paris, Rome and Oslo"]),
        ("list users and groups", ["list users and groups"]),
        ("", [""]),
    ],
)
def test_a_query_is_taken_apart_where_an_errand_begins(query: str, errands: list[str]) -> None:
    assert split_errands(query) == errands


def test_a_long_query_has_few_errands() -> None:
    assert len(split_errands("open the red door and " * 500)) <= 6


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "Show which git files changed, stash them and take a screenshot of the page",
            [
                "git.git_status git-cyanheads.git_status git.git_show git-cyanheads.git_show",
                "git-cyanheads.git_stash",
                "screenshot",
            ],
        ),
        (
            "Delete the Redis key cart:9, post a message to the Slack channel and list the pods in Kubernetes",
            ["redis.delete", "slack.slack_post_message", "pods_list kubectl_get"],
        ),
    ],
)
def test_the_first_five_tools_have_one_for_each_errand(index: SearchIndex, query: str, wanted: list[str]) -> None:
    answer = index.search(query)
    keys = [hit.tool.key for hit in answer.hits]
    assert len(keys) == 5
    for names in wanted:
        assert any(name in key for name in names.split() for key in keys), (names, keys)
    assert len(answer.parts) == len(wanted)
    assert all(part.tools for part in answer.parts)
