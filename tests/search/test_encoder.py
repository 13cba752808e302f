"""A sentence encoder beside the table: how an index uses one."""

from typing import TYPE_CHECKING

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Topics:
    """An encoder that knows two topics and nothing else."""

    width = 2
    checksum = 7

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        found = [[float("feline" in text or "cat" in text), float("feline" not in text)] for text in texts]
        return np.array(found, np.float32)


def test_an_encoder_brings_tools_together_that_share_no_word_with_the_query() -> None:
    tools = (Tool("pets", "groom", {"description": "Brush a feline"}), Tool("pets", "ride", {"description": "Saddle"}))
    index = SearchIndex.build([Listing("pets", tools=tools)], model=Topics())
    assert index.search("cat").hits[0].tool.name == "groom"


def test_segments_without_the_encoders_vectors_are_rebuilt_when_one_is_used() -> None:
    listing = Listing("pets", tools=(Tool("pets", "groom", {"description": "Brush a feline"}),))
    plain = build_segment(listing)
    index = SearchIndex.load({"pets": (listing, plain)}, model=Topics())
    assert index.search("brush").hits
    assert index.segment("pets") == build_segment(listing, Topics())
    assert index.segment("pets") != plain
