"""How well each tool fits a query: letters and meanings of the whole, and of its best-fitting part.

Owns the few numbers that search was tuned with (`bench/search` measures them). Scores lie between 0 and 1 and
mean the same in every catalogue. Knows neither listings nor policy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wicket_mcp.search.errands import split_errands
from wicket_mcp.search.features import Features
from wicket_mcp.search.matrix import Matrix
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Model
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEANING, MEANING_ALONE = 0.45, 1.3
"""The worth of a cosine of meanings against one of letters: where the words of a query find a tool, and where not."""
WORDS_FIND, WORDS_MISS = 0.3, 0.15
"""The best cosine of letters at which the words are taken to have found something, and to have found nothing."""
PART = 0.25
"""The worth of the best-fitting part of a query against the whole."""
SHORTLIST = 512


@dataclass(frozen=True, slots=True)
class Scores:
    """Per tool, for one query: the fit that counts, and what it is made of."""

    fit: "NDArray[np.float32]"
    letters: "NDArray[np.float32]"
    meaning: "NDArray[np.float32]"
    scale: float
    """What the sum of letters and meaning is divided by, so that a perfect fit is 1."""
    parts: tuple[str, ...]
    by_part: "NDArray[np.float32]"
    """The fit for each part alone; empty when the query has one."""

    @property
    def closeness(self) -> "NDArray[np.float32]":
        """The cosine of meanings between the query and each tool."""
        return self.meaning / np.float32(self.scale - 1)


def score(matrix: Matrix, query: str, model: Model | None = None) -> Scores:
    pieces = split_errands(query)
    texts = [query, *pieces] if len(pieces) > 1 else [query]
    split = [words(text) for text in texts]
    letters = matrix.letters([Features().add(text) for text in split])
    vectors = [packaged_table().vectors(split), *([model.encode(texts)] if model else [])]
    sides = list(zip(vectors, (matrix.meanings, matrix.learned), strict=False))
    worth = np.array([_worth(float(row.max(initial=0.0))) for row in letters], np.float32)
    meaning = worth[0] * _mean([tools @ asked[0] for asked, tools in sides])
    scale = 1 + float(worth[0])
    whole = (letters[0] + meaning) / np.float32(scale)
    if len(texts) == 1:
        return Scores(whole, letters[0], meaning, scale, (query,), np.empty((0, matrix.size), np.float32))
    # Meanings of the parts are compared for tools that have a chance only: it is the costliest step.
    near = shortlist(whole + letters[1:].max(0), SHORTLIST)
    of_parts = worth[1:, None] * _mean([asked[1:] @ tools[near].T for asked, tools in sides])
    by_part = np.zeros((len(pieces), matrix.size), np.float32)
    by_part[:, near] = (letters[1:, near] + of_parts) / (1 + worth[1:, None])
    fit = (whole + PART * by_part.max(0)) / np.float32(1 + PART)
    return Scores(fit, letters[0], meaning, scale, tuple(pieces), by_part)


def shortlist(scores: "NDArray[np.float32]", size: int) -> "NDArray[np.int64]":
    """Positions of the highest scores, in no order."""
    if len(scores) <= size:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - size)[-size:]


def _worth(best: float) -> float:
    """What meaning is worth for a query whose words fit their best tool so well: the better, the less."""
    missed = (WORDS_FIND - best) / (WORDS_FIND - WORDS_MISS)
    return MEANING + (MEANING_ALONE - MEANING) * min(1.0, max(0.0, missed))


def _mean(cosines: "list[NDArray[np.float32]]") -> "NDArray[np.float32]":
    """The table's cosine, or the mean of it and a sentence encoder's."""
    return cosines[0] if len(cosines) == 1 else (cosines[0] + cosines[1]) / np.float32(2)
