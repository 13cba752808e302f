"""How well each tool fits a query: by letters and meanings of the whole query, and of its best-fitting part.

Owns the few tuned parameters of search (`bench/search` measures them). Scores are between 0 and 1 and comparable across
catalogues. Knows neither listings nor policy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wicket_mcp.search.encoder import PACKAGED
from wicket_mcp.search.errands import split_errands
from wicket_mcp.search.features import Features, stem_numbers
from wicket_mcp.search.matrix import Matrix
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Model
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import words

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENCODER = 0.7
"""The share of the sentence encoder's cosine in the cosine of meanings; the rest is the static table's."""
ENCODER_HELPS, ENCODER_ALONE = 0.4, 0.8
"""The same for ranking: if the words of a query find a tool, and if not."""
MEANING, MEANING_ALONE = 0.35, 3.0
"""The weight of meanings relative to letters: if the words of a query find a tool, and if not."""
COVERED = 0.2
"""The weight of the share of the query's words that a tool has, relative to letters, if the words find a tool."""
WORDS_FIND, WORDS_MISS = 0.3, 0.15
"""The best cosine of letters at which the words count as having found something, and as having found nothing."""
PART = 0.25
"""The weight of the best-fitting part of a query relative to the whole."""
ERRAND = 2.0
"""The weight of meaning when an errand chooses its own tools: it has few words, and some are elsewhere."""
SHORTLIST = 512


@dataclass(frozen=True, slots=True)
class Scores:
    """Per tool, for one query: the final fit, and its parts."""

    fit: "NDArray[np.float32]"
    letters: "NDArray[np.float32]"
    """By the spelling: the near-cosine of features."""
    covered: "NDArray[np.float32]"
    """By the share of the query's words that a tool has, weighted."""
    meaning: "NDArray[np.float32]"
    """By meanings, weighted."""
    scale: float
    """The divisor for the sum of letters, covered and meaning, so that a perfect fit is 1."""
    closeness: "NDArray[np.float32]"
    """The cosine of meanings between the query and each tool."""
    parts: tuple[str, ...]
    by_part: "NDArray[np.float32]"
    """The fit for each part alone; empty if the query has one part."""


class Meanings:
    """The cosine of meanings between texts and tools: from table and encoder, or from the table only for tools without
    a vector of the encoder."""

    def __init__(self, matrix: Matrix, by_table: "NDArray[np.float32]", texts: list[str], model: Model) -> None:
        self._matrix = matrix
        self._by_table = by_table
        self._learned = model.encode_queries(texts) if matrix.learned.shape[1] else None

    def compare_whole(self, *shares: float) -> "list[NDArray[np.float32]]":
        """For each share that the encoder is to have."""
        table = self._matrix.meanings @ self._by_table[0]
        if self._learned is None:
            return [table] * len(shares)
        encoder = self._matrix.learned @ self._learned[0]
        return [_blend(table, encoder, self._matrix.known, share) for share in shares]

    def compare_parts(self, near: "NDArray[np.int64]") -> "NDArray[np.float32]":
        table = self._by_table[1:] @ self._matrix.meanings[near].T
        if self._learned is None:
            return table
        return _blend(table, self._learned[1:] @ self._matrix.learned[near].T, self._matrix.known[near], ENCODER)


def _blend(
    table: "NDArray[np.float32]", encoder: "NDArray[np.float32]", known: "NDArray[np.bool_]", share: float
) -> "NDArray[np.float32]":
    return np.where(known, np.float32(1 - share) * table + np.float32(share) * encoder, table)


def score(matrix: Matrix, query: str, model: Model | None = None, *, original: str = "") -> Scores:
    """`original` is the query as it was written, if `query` is its English version: the encoder reads other languages
    too.
    """
    pieces = split_errands(query)
    texts = [query, *pieces] if len(pieces) > 1 else [query]
    split = [words(text) for text in texts]
    letters = matrix.letters([Features().add(text) for text in split])
    meanings = Meanings(matrix, packaged_table().vectors(split), [original or query, *texts[1:]], model or PACKAGED)
    missed = [_measure_miss(float(row.max(initial=0.0))) for row in letters]
    worth = np.array([MEANING + (MEANING_ALONE - MEANING) * share for share in missed], np.float32)
    covered = np.float32(COVERED * (1 - missed[0]))
    encoder = ENCODER_HELPS + (ENCODER_ALONE - ENCODER_HELPS) * missed[0]
    ranked, closeness = meanings.compare_whole(encoder, ENCODER)
    cover = covered * matrix.coverage(stem_numbers(split[0]))
    meaning = worth[0] * ranked
    scale = float(1 + covered + worth[0])
    whole = (letters[0] + cover + meaning) / np.float32(scale)
    signals = letters[0], cover, meaning, scale, closeness
    if len(texts) == 1:
        return Scores(whole, *signals, (query,), np.empty((0, matrix.size), np.float32))
    # Meanings of the parts are compared only for promising tools: this is the most expensive step.
    near = shortlist(whole + letters[1:].max(0), SHORTLIST)
    of_parts = meanings.compare_parts(near)
    best = np.zeros(matrix.size, np.float32)
    best[near] = ((letters[1:, near] + worth[1:, None] * of_parts) / (1 + worth[1:, None])).max(0)
    fit = (whole + PART * best) / np.float32(1 + PART)
    by_part = np.zeros((len(pieces), matrix.size), np.float32)
    by_part[:, near] = (letters[1:, near] + np.float32(ERRAND) * of_parts) / np.float32(1 + ERRAND)
    return Scores(fit, *signals, tuple(pieces), by_part)


def shortlist(scores: "NDArray[np.float32]", size: int) -> "NDArray[np.int64]":
    """Positions of the highest scores, unordered."""
    if len(scores) <= size:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - size)[-size:]


def _measure_miss(best: float) -> float:
    """How far the words of a query are from finding its best tool: 0 if they find it, 1 if they do not."""
    return min(1.0, max(0.0, (WORDS_FIND - best) / (WORDS_FIND - WORDS_MISS)))
