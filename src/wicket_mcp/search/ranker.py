"""How well each tool fits a query: letters and meanings of the whole, and of its best-fitting part.

Owns the few numbers that search was tuned with (`bench/search` measures them). Scores lie between 0 and 1 and
mean the same in every catalogue. Knows neither listings nor policy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wicket_mcp.search.features import Features
from wicket_mcp.search.matrix import Matrix
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Model
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import parts, split_tasks, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEANING = 0.45
"""The worth of a cosine of meanings against one of letters."""
SEMANTIC = (0.3, 0.3)
"""With a sentence encoder: the worth of the table's cosine, and of the encoder's."""
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


def score(matrix: Matrix, query: str, model: Model | None = None) -> Scores:
    pieces = parts(query)
    ranked = len(pieces) > 1
    pieces = pieces if ranked else split_tasks(query)
    texts = [query, *pieces] if len(pieces) > 1 else [query]
    split = [words(text) for text in texts]
    letters = matrix.letters([Features().add(text) for text in split])
    worth = SEMANTIC if model else (MEANING,)
    scale = 1 + sum(worth)
    vectors = [packaged_table().vectors(split), *([model.encode(texts)] if model else [])]
    sides = list(zip(worth, vectors, (matrix.meanings, matrix.learned), strict=False))
    meaning = _sum([weight * (tools @ asked[0]) for weight, asked, tools in sides])
    whole = (letters[0] + meaning) / np.float32(scale)
    if len(texts) == 1:
        return Scores(whole, letters[0], meaning, scale, (query,), np.empty((0, matrix.size), np.float32))
    # Meanings of the parts are compared for tools that have a chance only: it is the costliest step.
    near = shortlist(whole + letters[1:].max(0), SHORTLIST)
    of_parts = _sum([weight * (asked[1:] @ tools[near].T) for weight, asked, tools in sides])
    by_part = np.zeros((len(pieces), matrix.size), np.float32)
    by_part[:, near] = (letters[1:, near] + of_parts) / np.float32(scale)
    fit = (whole + PART * by_part.max(0)) / np.float32(1 + PART) if ranked else whole
    return Scores(fit, letters[0], meaning, scale, tuple(pieces), by_part)


def shortlist(scores: "NDArray[np.float32]", size: int) -> "NDArray[np.int64]":
    """Positions of the highest scores, in no order."""
    if len(scores) <= size:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - size)[-size:]


def _sum(parts: "list[NDArray[np.float32]]") -> "NDArray[np.float32]":
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
