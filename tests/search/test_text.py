"""Words, stems and features: what both sides of a match are made of."""

from pathlib import Path

import pytest

from wicket_mcp.search import static
from wicket_mcp.search.features import Features
from wicket_mcp.search.static import Table, grams, packaged_table
from wicket_mcp.search.text import stem, words


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("getHTTPResponse_v2", ["get", "http", "response", "v", "2"]),
        ("create-issue", ["create", "issue"]),
        ("linear_createProjectUpdate", ["linear", "create", "project", "update"]),
        ("GET /movie/{movie_id}", ["get", "movie", "movie", "id"]),
        ("Café MÜNCHEN", ["cafe", "munchen"]),
        ("搜索 files", ["搜", "索", "files"]),
        ("привет мир", ["привет", "мир"]),
        ("", []),
    ],
)
def test_text_is_split_where_a_reader_sees_words(text: str, split: list[str]) -> None:
    assert words(text) == split


@pytest.mark.parametrize(
    "family",
    [
        ("create", "creates", "created", "creating"),
        ("search", "searches", "searched", "searching"),
        ("query", "queries"),
        ("delete", "deletes", "deleted", "deleting"),
        ("list", "lists", "listing", "listed"),
        ("run", "runs", "running"),
        ("message", "messages"),
    ],
)
def test_inflections_fall_together(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1


def test_different_words_stay_apart() -> None:
    assert len({stem(word) for word in ("issue", "class", "status", "bus", "this", "pass", "id")}) == 7


def test_a_misspelt_word_keeps_most_of_its_pieces() -> None:
    right, wrong = Features().add(["elasticsearch"]), Features().add(["elasticsaerch"])
    assert not right.stems.keys() & wrong.stems.keys()
    assert len(right.pieces.keys() & wrong.pieces.keys()) >= 6


def test_related_words_lie_closer_than_unrelated_ones() -> None:
    table = packaged_table()

    def near(a: str, b: str) -> float:
        return float(table.encode(a) @ table.encode(b))

    assert near("picture", "photo") > near("picture", "invoice") + 0.2
    assert near("send an email", "write a message to somebody") > near("send an email", "restart the cluster") + 0.2
    assert near("kuberntes", "kubernetes") > near("kuberntes", "spreadsheet") + 0.1


def test_a_word_means_the_same_before_and_after_the_whole_vocabulary_is_learnt() -> None:
    data = Path(static.__file__).with_name("table.bin").read_bytes()
    fresh, learnt = Table(data), Table(data)
    learnt.vectors([[f"word{i}" for i in range(1000)]])
    for text in ("create", "0", "subhuman", "notaword", "two\nlines", "issue repository issue"):
        assert fresh.encode(text).tolist() == learnt.encode(text).tolist()
    assert fresh.encode("the").tolist() != fresh.encode("kubernetes").tolist()


def test_every_word_has_pieces_within_the_table() -> None:
    for word in ("a", "ab", "x" * 500, "日本"):
        found = grams(word, 100)
        assert found
        assert all(0 <= number < 100 for number in found)
