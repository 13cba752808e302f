"""Queries in other languages than the tools'."""

from pathlib import Path

import pytest

from wicket_mcp.codec import decode
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.glossary import to_english

QUERIES = Path(__file__).parents[2] / "bench" / "queries" / "requests.jsonl"
ROWS = [decode(line) for line in QUERIES.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("query", "english"),
    [
        ("Erstelle einen Ordner für die Dateien", "create folder file"),
        ("Schalte das Licht in der Küche aus", "turn light in kitchen off"),
        ("Télécharge l'image depuis le serveur", "download image server"),
        ("Envía un mensaje a los usuarios", "send message a user"),
        ("创建一个文件夹", "create folder"),
        ("ファイルを削除する", "file delete"),
        ("在 GitHub 上删除分支", "GitHub delete branch"),
    ],
)
def test_words_of_the_glossary_are_put_into_english(query: str, english: str) -> None:
    assert to_english(query).split() == english.split()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "list the files",
        "capture page",
        "send mail to Die Zeit",
        "kubectl get pods",
        "创世纪",
        "привет мир",
        "É" * 999,
    ],
)
def test_what_is_english_or_unknown_is_left_alone(query: str) -> None:
    assert to_english(query).split() == query.split()


def test_no_english_query_of_ours_is_taken_for_another_language() -> None:
    english = [row["query"] for row in ROWS if row["kind"] in ("paraphrase", "task", "multi", "typo", "none")]
    assert len(english) > 400
    assert [query for query in english if to_english(query) != query] == []


@pytest.mark.parametrize("language", ["german", "french", "spanish", "chinese", "japanese"])
def test_half_of_the_requests_in_a_language_find_their_tool(index: SearchIndex, language: str) -> None:
    rows = [row for row in ROWS if row["kind"] == language]
    found = [bool({hit.tool.key for hit in index.search(row["query"]).hits} & {*row["gold"][0]}) for row in rows]
    assert len(rows) == 20
    assert sum(found) >= 10
