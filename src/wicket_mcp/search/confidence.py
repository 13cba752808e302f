"""How likely an answer serves its query, and when to say that nothing does.

Logistic functions of what `Evidence` holds, with weights from the tuning half of the project's own queries, in
catalogues of 5 to 1,966 tools (`bench/retrieval/calibrate.py` prints the numbers): one at a first look, and one for the
answers that it leaves in doubt, after the judge has read their tools. Knows neither tools nor texts.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

import msgspec

WEIGHTS = (14.39, 8.09, -0.41, -6.67, 1.00, -6.56, 1.10, 1.09, -0.49, -3.87, 0.93, -4.52)
"""Of each of `Evidence.inputs`; the last is that of nothing at all."""
JUDGED = (0.68, -0.39, 14.00, 3.42, -0.35, -8.65, 5.98, -16.25, 0.76, 1.43, -0.73, -4.10, 1.12, -2.50)
"""Of each of `Evidence.inputs_after_judge`."""
LEVELS = ((5, -1.54, -1.28), (20, -1.42, -0.33), (140, -1.58, -0.49), (1966, -1.20, -0.77))
"""Tools, and what is then taken off the log odds, at first look and after the judge's, so that each size declines as
seldom wrongly as is allowed, or more seldom if there is room. Between the sizes it is interpolated."""
DOUBT = -2.0, 3.0
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
            self.is_product_there * self.closest,
            self.act,
            self.best_act,
            log(max(1, self.tools)),
            1 / (1 + self.words),
            min(_MOST_ERRANDS, self.errands),
            1.0,
        )

    @property
    def inputs_after_judge(self) -> tuple[float, ...]:
        """The judge reads several errands as one, so its opinion of a tool that does one of them counts otherwise."""
        judged = 0.0 if self.judged is None else self.judged
        return (judged, judged * (self.errands > 1), *self.inputs)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the judge should read the tools."""
        least, most = DOUBT
        return least < self._odds_at_first < most

    @property
    def confidence(self) -> float:
        """The probability, from 0 to 1, that a hit serves the query."""
        odds = self._odds_at_first
        if self.judged is not None:
            odds = _weigh(JUDGED, self.inputs_after_judge) - interpolate(LEVELS, self.tools, 2)
        return 1 / (1 + exp(-max(-50.0, min(50.0, odds))))

    @property
    def _odds_at_first(self) -> float:
        return _weigh(WEIGHTS, self.inputs) - interpolate(LEVELS, self.tools, 1)


def interpolate(table: Sequence[tuple[int, float, float]], tools: int, column: int) -> float:
    """What a column of a table has for so many tools."""
    for lower, upper in pairwise(table):
        if tools <= upper[0]:
            share = log(max(tools, lower[0]) / lower[0]) / log(upper[0] / lower[0])
            return lower[column] + share * (upper[column] - lower[column])
    return table[-1][column]


def _weigh(weights: Sequence[float], values: Sequence[float]) -> float:
    """The log odds."""
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
