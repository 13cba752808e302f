"""Descriptions as one clean line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.schema.descriptions import first_sentence, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Create a new issue", "Create a new issue"),
        ("Create a new issue. Needs a token.", "Create a new issue"),
        ("Is it up? Ask.", "Is it up?"),
        ("Runs it!\nFast.", "Runs it!"),
        ("Reads files, e.g. images. Then stops.", "Reads files, e.g. images"),
        ("Reads files, i.e. Images and text. More.", "Reads files, i.e. Images and text"),
        ("Formats dates, times, etc. for people. More.", "Formats dates, times, etc. for people"),
        ("Formats dates, times, etc. Then stops.", "Formats dates, times, etc."),
        ("Speaks v1.2 of the API. More.", "Speaks v1.2 of the API"),
        ("Fetch https://example.com/a.b?c=d. Done.", "Fetch https://example.com/a.b?c=d"),
        ("Made in the U.S. Army style. More.", "Made in the U.S. Army style"),
        ("Waits... Then goes on.", "Waits..."),
        ("Wrapped over\n   two lines. More.", "Wrapped over two lines"),
        ("First paragraph\n\nSecond paragraph", "First paragraph"),
        ("# Title\n\nWhat it does. More.", "What it does"),
        ("## Only a title", "Only a title"),
        ("Purpose:\n  1. Reads an object. More.", "Reads an object"),
        ("---\n**Search** the [docs](https://x.y/z) with `grep`. More.", "Search the docs with grep"),
        ("Keeps snake_case_names and 2 * 3 * 4 as they are.", "Keeps snake_case_names and 2 * 3 * 4 as they are"),
        ("Shows <revision>:<path> of a commit", "Shows <revision>:<path> of a commit"),
        ("<usage>Send a message</usage>", "Send a message"),
        ("Does one of:\n- a\n- b", "Does one of"),
        ("Gets a user\nArgs:\n  id: the user", "Gets a user"),
        ("ファイルを読む。次に書く。", "ファイルを読む。"),
        ("A tool - for this. More.", "A tool - for this"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_the_first_sentence_is_taken(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


def test_what_cannot_be_seen_is_removed() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    assert first_sentence(f"Re\u200bad\u202e a\x07 \ufefffile\ufe0f{hidden}\u3164.") == "Read a file"


def test_a_long_sentence_is_cut_at_a_word() -> None:
    assert first_sentence("one two three four five", limit=14) == "one two three…"
    assert first_sentence("x" * 500, limit=20) == "x" * 19 + "…"


@given(st.text(max_size=300), st.integers(1, 200))
def test_any_text_becomes_one_short_printable_line(text: str, limit: int) -> None:
    line = first_sentence(text, limit)
    assert len(line) <= limit
    assert line.isprintable()
    assert visible(line) == line


@pytest.mark.parametrize("part", ["#", "# ", "**", "`", "<a>", "[", "](", "![", "- ", ">", "a. ", "\n", "e.g. ", "_"])
def test_a_description_made_to_be_slow_is_not(part: str) -> None:
    assert len(first_sentence(part * 200_000)) <= 120
