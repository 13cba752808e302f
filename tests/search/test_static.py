"""The table of words: a text's vector does not depend on the texts that are added up with it."""

from wicket_mcp.search.static import packaged_table

TEXTS = [["send", "message"], [], ["frobnicate", "qwertzuiop"] * 3, ["delete"] * 7, ["weather", "forecast", "xyzzy"]]


def test_the_texts_of_thousands_of_tools_have_the_vectors_that_they_have_alone() -> None:
    table = packaged_table()
    alone = [table.vectors([text])[0].tolist() for text in TEXTS]
    assert table.vectors(TEXTS * 400).tolist() == alone * 400
    assert table.vectors([]).tolist() == []
