"""How likely an answer serves its query, and when to say that nothing does.

Logistic functions of what `Evidence` holds, with weights from the tuning half of the project's own queries, in
catalogues of 5 to 1,966 tools (`bench/retrieval/calibrate.py` prints the numbers): one at a first look, and one for the
answers that it leaves in doubt, after the judge has read their tools. Knows neither tools nor texts.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

import msgspec

WEIGHTS = (15.07, 8.42, -0.36, -8.16, 0.77, -6.40, 1.36, 1.23, -0.50, -4.95, 0.85, -4.43)
"""Of each of `Evidence.inputs`; the last is that of nothing at all."""
JUDGED = (0.44, -0.32, 0.25, 6.99, 4.70, -0.23, -9.81, 2.81, -9.62, 0.52, 1.32, -0.45, -2.08, 0.94, -3.97)
"""Of each of `Evidence.inputs_after_judge`."""
LEVELS = ((5, -1.73, -2.90), (20, -1.36, -1.76), (140, -1.66, -1.26), (1966, -1.49, -0.91))
"""Tools, and what is then taken off the log odds, at first look and after the judge's, so that each size declines as
seldom wrongly as is allowed, or more seldom if there is room. Between the sizes it is interpolated."""
DOUBT = ((140, -3.0, 8.0), (1966, -2.0, 3.0))
"""Tools, and the log odds at first look between which an answer is then in doubt: among few nearly always, because a
search takes so little time there that there is enough for the judge."""
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
    is_called: bool = False
    """Whether the query is nothing but the name of a hit, or words of it."""
    judged: float | None = None
    """The best that the judge says of a hit, of those that mention the products; None if it was not asked."""
    agreed: float = 0.0
    """The best of what the judge says of a tool and of its closeness together, of all that it has read: a tool that is
    close and one that the judge likes say less than one that is both."""

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
        return (judged, judged * (self.errands > 1), self.agreed, *self.inputs)

    @property
    def is_contrary(self) -> bool:
        """Whether the one act that is wanted is the contrary of what the closest tool does: "delete the message"."""
        return self.act < 0 and self.errands == 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether the judge should read the tools."""
        odds, most = self._odds_at_first, interpolate(DOUBT, self.tools, 2)
        near = odds > interpolate(DOUBT, self.tools, 1) and (odds < most or self.is_contrary)
        return near and not self.is_called

    @property
    def confidence(self) -> float:
        """The probability, from 0 to 1, that a hit serves the query."""
        if self.is_called:
            return 1.0
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
