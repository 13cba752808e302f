"""An answer within its budget."""

from wicket_mcp.model import Tool
from wicket_mcp.search import SearchIndex, disclose


def signature(tool: Tool) -> str:
    return f"{tool.key}({', '.join(tool.input_schema.get('properties', {}))}) - {tool.description[:80]}"


def name(tool: Tool) -> str:
    return tool.key


def tokens(text: str) -> int:
    return len(text) // 4 + 1


def test_the_first_hits_say_most_and_the_whole_fits(index: SearchIndex) -> None:
    hits = index.search("create an issue", limit=10).hits
    shown = disclose(hits, 200, (signature, name), tokens)
    assert [entry.hit for entry in shown] == list(hits)
    assert sum(tokens(entry.text) for entry in shown) <= 200
    assert shown[0].level == 0
    assert shown[-1].level == 1
    assert shown[-1].text == hits[-1].tool.key


def test_with_room_for_all_every_hit_is_told_in_full(index: SearchIndex) -> None:
    hits = index.search("create an issue", limit=5).hits
    assert {entry.level for entry in disclose(hits, 10_000, (signature, name), tokens)} == {0}


def test_the_last_hits_are_dropped_when_even_names_do_not_fit(index: SearchIndex) -> None:
    hits = index.search("create an issue", limit=10).hits
    shown = disclose(hits, 30, (signature, name), tokens)
    assert 1 <= len(shown) < 10
    assert [entry.hit for entry in shown] == list(hits[: len(shown)])


def test_the_best_hit_is_named_whatever_the_budget(index: SearchIndex) -> None:
    hits = index.search("create an issue", limit=3).hits
    assert [entry.text for entry in disclose(hits, 0, (signature, name), tokens)] == [hits[0].tool.key]


def test_no_hits_disclose_nothing() -> None:
    assert disclose((), 100, (signature, name), tokens) == ()
