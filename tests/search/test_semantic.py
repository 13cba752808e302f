"""A sentence encoder beside the table: the extra's parts, and how an index uses one."""

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.conftest import OpenGateway, replay

from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search.numeric import np
from wicket_mcp.search.semantic import SentenceEncoder
from wicket_mcp.search.semantic.wordpiece import WordPieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "##ed", "cafe", "!", "un", "##play", "日"]


class Topics:
    """An encoder that knows two topics and nothing else."""

    width = 2

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        found = [[float("feline" in text or "cat" in text), float("feline" not in text)] for text in texts]
        return np.array(found, np.float32)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Playing", [2, 4, 5, 3]),
        ("unplayed!", [2, 9, 10, 6, 8, 3]),
        ("Café 日", [2, 7, 11, 3]),
        ("xyz", [2, 1, 3]),
        ("", [2, 3]),
        ("play " * 50, [2, 4, 4, 4, 4, 4, 4, 3]),
    ],
)
def test_words_are_cut_into_the_longest_known_pieces(text: str, numbers: list[int]) -> None:
    assert WordPieces(PIECES)(text, 8) == numbers


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


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    lacking = "import sys; sys.modules['onnxruntime'] = None"
    asked = "from wicket_mcp.search.semantic import SentenceEncoder; SentenceEncoder()"
    ended = subprocess.run([sys.executable, "-c", f"{lacking}; {asked}"], capture_output=True, text=True, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert "ConfigError" in last
    assert "wicket-mcp[semantic]" in last


async def test_a_gateway_ranks_with_the_encoder_where_the_configuration_says_so(open_gateway: OpenGateway) -> None:
    scores: list[float] = []
    for semantic in (False, True):
        async with open_gateway(
            {"git": replay("git"), "time": replay("time")}, search={"semantic": semantic}
        ) as gateway:
            best, *_ = await gateway.search("switch to another branch")
            assert best.tool.key == "git.git_checkout"
            scores.append(best.score)
    assert scores[0] < scores[1]


def test_the_real_encoder_tells_paraphrases_from_strangers() -> None:
    asked, same, other = SentenceEncoder().encode(
        ["mail this to bob", "send an e-mail to a person", "restart the kubernetes cluster"]
    )
    assert float(asked @ same) > float(asked @ other) + 0.2
    assert abs(float(asked @ asked) - 1) < 1e-5
