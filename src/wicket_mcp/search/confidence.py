"""How likely an answer serves its query, and when to say that nothing does.

Logistic functions of what `Evidence` holds, with weights from the tuning half of the project's own queries, in
catalogues of 5 to 1,966 tools (`bench/retrieval/calibrate.py` prints the numbers): one at a first look, and one for the
answers that it leaves in doubt, after the judge has read their tools. Knows neither tools nor texts.
"""

from collections.abc import Sequence
from math import exp, log

import msgspec

WEIGHTS = (9.49, 11.83, -0.39, -4.45, -1.51, 1.46, 0.59, -0.37, -4.63, 0.91, -3.02)
"""Of each of `Evidence.inputs`; the last is that of nothing at all."""
JUDGED = (0.46, 7.51, 15.72, -0.39, -5.70, -0.64, 0.81, 0.80, -0.51, -6.83, 0.70, -2.26)
"""Of what the judge says, and of each of `Evidence.inputs`."""
DOUBT = (-2.0, 2.0)
"""The log odds at first look between which an answer is in doubt."""
SURE = 0.5
_MOST_SUBJECTS, _MOST_ERRANDS = 2, 3


class Evidence(msgspec.Struct, frozen=True):
    """What speaks for an answer and against it."""

    closest: float = 0.0
    """The best cosine of meanings between the query and a hit, of those that mention the products it names."""
    fit: float = 0.0
    """The best score of a hit."""
    missing_subjects: int = 0
    """Subjects of the query that no hit mentions."""
    is_product_missing: bool = False
    """Whether the query names a product that no hit mentions."""
    is_product_there: bool = False
    """Whether it names products, and hits mention all of them: then the nearest tool is near because of the name."""
    act: float = 0.0
    """Whether the closest hit does the kind of act that the query wants (positive) or the contrary (negative)."""
    best_act: float = 0.0
    """The same of the hit that does it best."""
    tools: int = 0
    """Tools that could have been hits: among many, one is close by chance."""
    words: int = 0
    """Meaningful words of the query."""
    errands: int = 1
    judged: float | None = None
    """The best that the judge says of a hit, of those that mention the products; None if it was not asked."""

    @property
    def inputs(self) -> tuple[float, ...]:
        return (
            self.closest,
            self.fit,
            min(_MOST_SUBJECTS, self.missing_subjects),
            self.is_product_missing,
            self.is_product_there,
            self.act,
            self.best_act,
            log(max(1, self.tools)),
            1 / (1 + self.words),
            min(_MOST_ERRANDS, self.errands),
            1.0,
        )

    @property
    def is_in_doubt(self) -> bool:
        """Whether the judge should read the tools."""
        return DOUBT[0] < _weigh(WEIGHTS, self.inputs) < DOUBT[1]

    @property
    def confidence(self) -> float:
        """The probability, from 0 to 1, that a hit serves the query."""
        odds = _weigh(WEIGHTS, self.inputs) if self.judged is None else _weigh(JUDGED, (self.judged, *self.inputs))
        return 1 / (1 + exp(-max(-50.0, min(50.0, odds))))


def _weigh(weights: Sequence[float], values: Sequence[float]) -> float:
    """The log odds."""
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
