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
JUDGED = (1.05, 0.08, -0.94, -0.01, 12.29, 9.05, -0.44, -5.21, -1.34, 0.55, 1.34, -0.57, -5.18, 0.64, -0.67)
"""Of each of `Evidence.judged_inputs`."""
DOUBT = (-2.5, 2.5)
"""The log odds at first look between which an answer is in doubt."""
SURE = 0.5
_MOST_SUBJECTS, _MOST_ERRANDS = 2, 3
_WORST = -12.0


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
    judged: tuple[float, ...] = ()
    """What the judge says of the best tools, if it was asked."""

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
    def judged_inputs(self) -> tuple[float, ...]:
        """The best of what was judged, the second, all together, how sure it is that even the best fails; the rest."""
        best, second, *_ = (*sorted((max(_WORST, value) for value in self.judged), reverse=True), _WORST, _WORST)
        together = log(sum(exp(value) for value in (*self.judged, _WORST)))
        return (best, second, together, min(best, 0.0) ** 2, *self.inputs)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the judge should read the tools."""
        return DOUBT[0] < _weigh(WEIGHTS, self.inputs) < DOUBT[1]

    @property
    def confidence(self) -> float:
        """The probability, from 0 to 1, that a hit serves the query."""
        odds = _weigh(JUDGED, self.judged_inputs) if self.judged else _weigh(WEIGHTS, self.inputs)
        return 1 / (1 + exp(-max(-50.0, min(50.0, odds))))


def _weigh(weights: Sequence[float], values: Sequence[float]) -> float:
    """The log odds."""
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
