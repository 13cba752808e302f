"""How well each tool fits a query: by letters and meanings of the whole query, and of its best-fitting part; then the
best tools are looked at again.

Owns the few tuned parameters of search (`bench/search` measures them). Scores are between 0 and 1 and comparable across
catalogues. Knows neither listings nor policy.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wicket_mcp.search.encoder import PACKAGED
from wicket_mcp.search.errands import split_errands
from wicket_mcp.search.features import Features, stem_numbers
from wicket_mcp.search.matrix import Matrix, shortlist
from wicket_mcp.search.numeric import np
from wicket_mcp.search.reranker import CANDIDATES, Signals, describe, packaged_reranker
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
RERANKED = CANDIDATES
"""The best tools that are looked at again."""


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
    moved: "NDArray[np.float32]"
    """What the second look added to the fit or took away."""


class Meanings:
    """The cosine of meanings between texts and tools: from table and encoder, or from the table only for tools without
    a vector of the encoder."""

    def __init__(self, matrix: Matrix, by_table: "NDArray[np.float32]", texts: list[str], model: Model) -> None:
        self._matrix = matrix
        self._by_table = by_table
        self._learned = model.encode_queries(texts) if matrix.learned.shape[1] else None
        self.is_packaged = (
            self._learned is not None and model.checksum == PACKAGED.checksum and bool(matrix.known.all())
        )
        """Whether all of it is from Wicket's own encoder."""
        self.table = matrix.meanings @ by_table[0]
        self.encoder = self.table if self._learned is None else matrix.learned @ self._learned[0]

    def blend_whole(self, share: float) -> "NDArray[np.float32]":
        """With this share for the encoder."""
        return _blend(self.table, self.encoder, self._matrix.known, share)

    def compare_parts(self, near: "NDArray[np.int64]") -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
        """Of table and encoder, for each part."""
        table = self._by_table[1:] @ self._matrix.meanings[near].T
        return table, (table if self._learned is None else self._learned[1:] @ self._matrix.learned[near].T)


def _blend(
    table: "NDArray[np.float32]", encoder: "NDArray[np.float32]", known: "NDArray[np.bool_]", share: float
) -> "NDArray[np.float32]":
    return np.where(known, np.float32(1 - share) * table + np.float32(share) * encoder, table)


def score(matrix: Matrix, query: str, model: Model | None = None, *, original: str = "") -> Scores:
    """`original` is the query as it was written, if `query` is its English version: the encoder reads other languages
    too.
    """
    scores, signals = compare(matrix, query, model, original=original)
    if signals is None or not RERANKED:
        return scores
    near = shortlist(scores.fit, RERANKED)
    near = near[np.argsort(-scores.fit[near], kind="stable")]
    moves = packaged_reranker().move(describe(signals, near))
    again = near[np.argsort(-(scores.fit[near] + moves), kind="stable")]
    moved = np.zeros(matrix.size, np.float32)
    moved[again] = scores.fit[near] - scores.fit[again]  # the same scores in another order: they mean what they meant
    return replace(scores, fit=scores.fit + moved, moved=moved)


def compare(
    matrix: Matrix, query: str, model: Model | None = None, *, original: str = ""
) -> tuple[Scores, Signals | None]:
    """The scores before the second look, and what it is to see: None without the vectors of Wicket's own encoder."""
    pieces = split_errands(query)
    texts = [query, *pieces] if len(pieces) > 1 else [query]
    split = [words(text) for text in texts]
    letters = matrix.letters([Features().add(text) for text in split])
    meanings = Meanings(matrix, packaged_table().vectors(split), [original or query, *texts[1:]], model or PACKAGED)
    missed = [_measure_miss(float(row.max(initial=0.0))) for row in letters]
    worth = np.array([MEANING + (MEANING_ALONE - MEANING) * share for share in missed], np.float32)
    covered = np.float32(COVERED * (1 - missed[0]))
    encoder = ENCODER_HELPS + (ENCODER_ALONE - ENCODER_HELPS) * missed[0]
    coverage = matrix.coverage(stem_numbers(split[0]))
    cover = covered * coverage
    meaning = worth[0] * meanings.blend_whole(encoder)
    scale = float(1 + covered + worth[0])
    fit = (letters[0] + cover + meaning) / np.float32(scale)
    by_part = np.empty((0, matrix.size), np.float32)
    best = letters[0], meanings.table, meanings.encoder
    if len(texts) > 1:
        # Meanings of the parts are compared only for promising tools: this is the most expensive step.
        near = shortlist(fit + letters[1:].max(0), SHORTLIST)
        table, learned = meanings.compare_parts(near)
        of_parts = _blend(table, learned, matrix.known[near], ENCODER)
        fits = np.zeros(matrix.size, np.float32)
        fits[near] = ((letters[1:, near] + worth[1:, None] * of_parts) / (1 + worth[1:, None])).max(0)
        fit = (fit + PART * fits) / np.float32(1 + PART)
        by_part = np.zeros((len(pieces), matrix.size), np.float32)
        by_part[:, near] = (letters[1:, near] + np.float32(ERRAND) * of_parts) / np.float32(1 + ERRAND)
        best = letters[1:].max(0), _spread(matrix.size, near, table.max(0)), _spread(matrix.size, near, learned.max(0))
    parts = tuple(pieces) if len(texts) > 1 else (query,)
    unmoved = np.zeros(matrix.size, np.float32)
    closeness = meanings.blend_whole(ENCODER)
    scores = Scores(fit, letters[0], cover, meaning, scale, closeness, parts, by_part, unmoved)
    if not meanings.is_packaged:
        return scores, None
    seen = letters[0], coverage, meanings.table, meanings.encoder, matrix.mean_by_server(fit)
    return scores, Signals(fit, *seen, best, len(pieces), len(split[0]))


def _spread(size: int, near: "NDArray[np.int64]", values: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """An array of this size that is zero but for these values."""
    every = np.zeros(size, np.float32)
    every[near] = values
    return every


def _measure_miss(best: float) -> float:
    """How far the words of a query are from finding its best tool: 0 if they find it, 1 if they do not."""
    return min(1.0, max(0.0, (WORDS_FIND - best) / (WORDS_FIND - WORDS_MISS)))
