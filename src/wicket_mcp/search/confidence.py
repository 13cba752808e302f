"""How likely an answer serves its query, and when to say that nothing does.

A logistic function of what `Evidence` holds, with weights from the tuning half of the project's own queries, in
catalogues of 5 to 1,966 tools (`bench/retrieval/calibrate.py` prints the numbers). Knows neither tools nor texts.
"""

from math import exp, log

import msgspec

WEIGHTS = (9.01, 11.01, -0.46, -4.46, -1.44, 1.25, 1.15, -0.47, -4.48, 0.91, -2.21)
"""Of each of `Evidence.inputs`; the last is that of nothing at all."""
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
    def confidence(self) -> float:
        """The probability, from 0 to 1, that a hit serves the query."""
        weighed = sum(weight * value for weight, value in zip(WEIGHTS, self.inputs, strict=True))
        return 1 / (1 + exp(-max(-50.0, min(50.0, weighed))))
