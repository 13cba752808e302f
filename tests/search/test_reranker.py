"""The second look at the best tools: another order of the same scores, with Wicket's own encoder only."""

import pytest

from wicket_mcp.model import Listing
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.matrix import Matrix
from wicket_mcp.search.numeric import np
from wicket_mcp.search.ranker import compare, score
from wicket_mcp.search.reranker import CANDIDATES, Reranker
from wicket_mcp.search.segment import NoModel, Segment, build_segment

SERVERS = ("git", "github", "filesystem", "time", "notion")


def matrix_of(listings: list[Listing], *, learned: bool) -> Matrix:
    chosen = [listing for listing in listings if listing.server in SERVERS]
    read = [Segment.read(build_segment(one, learned=learned), len(one.tools)) for one in chosen]
    return Matrix([segment for segment in read if segment is not None])


def test_the_best_tools_change_places_and_scores_stay_what_they_were(listings: list[Listing]) -> None:
    matrix = matrix_of(listings, learned=True)
    first, signals = compare(matrix, "put a new bug report into our project")
    assert signals is not None
    again = score(matrix, "put a new bug report into our project")
    assert np.allclose(np.sort(first.fit), np.sort(again.fit), atol=1e-6)
    assert np.count_nonzero(again.moved) > 1
    assert np.count_nonzero(again.moved) <= CANDIDATES
    assert np.allclose(again.fit, first.fit + again.moved)


def test_tools_without_vectors_of_the_encoder_keep_their_order(listings: list[Listing]) -> None:
    matrix = matrix_of(listings, learned=False)
    first, signals = compare(matrix, "create a branch", NoModel())
    assert signals is None
    assert np.array_equal(score(matrix, "create a branch", NoModel()).fit, first.fit)


def test_bytes_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="not a reranker"):
        Reranker(b"\0" * 400)


def test_an_index_of_one_tool_is_searched(listings: list[Listing]) -> None:
    alone = next(listing for listing in listings if listing.server == "fetch")
    assert SearchIndex.build([alone]).search("get a web page").hits
