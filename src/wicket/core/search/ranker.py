"""How well each tool fits a query: letters and meanings of the whole, and of its best-fitting part.

Owns the few numbers that search was tuned with (`bench/search` measures them). Scores lie between 0 and 1 and
mean the same in every catalogue. Knows neither listings nor policy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wicket.core.search.features import Features
from wicket.core.search.matrix import Matrix
from wicket.core.search.numeric import np
from wicket.core.search.segment import Model
from wicket.core.search.static import packaged_table
from wicket.core.search.text import parts, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEANING = 0.45
"""The worth of a cosine of meanings against one of letters."""
SEMANTIC = (0.3, 0.3)
"""With a sentence encoder: the worth of the table's cosine, and of the encoder's."""
PART = 0.25
"""The worth of the best-fitting part of a query against the whole."""


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
    texts = [query, *pieces] if len(pieces) > 1 else [query]
    split = [words(text) for text in texts]
    letters = matrix.letters([Features().add(text) for text in split])
    table, encoder = SEMANTIC if model else (MEANING, 0.0)
    meaning = table * (packaged_table().vectors(split) @ matrix.meanings.T)
    if model:
        meaning = meaning + encoder * (model.encode(texts) @ matrix.learned.T)
    scale = 1 + table + encoder
    rows = ((letters + meaning) / scale).astype(np.float32)
    whole, by_part = rows[0], rows[1:]
    fit = (whole + PART * by_part.max(0)) / (1 + PART) if len(by_part) else whole
    return Scores(fit, letters[0], meaning[0], scale, tuple(pieces), by_part)
