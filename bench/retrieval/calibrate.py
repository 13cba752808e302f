"""The numbers of `wicket_mcp.search.confidence`, fitted on the half that is tuned on.

python -m retrieval.calibrate       (in bench/, with PYTHONPATH=../src)

Logistic regressions in which every size of catalogue, and servable and unservable queries, weigh the same: one of what
is seen at first look, and one of what the judge adds, for the answers that the first leaves in doubt. Then each size
gets the level at which the share of servable queries that is declined, and that of unservable ones which is not, are
the same part of what is allowed (WRONGLY, 100 - RIGHTLY), if nine tenths of what is allowed of servable ones are not
exceeded: what is just within the limit here is often beyond it for other queries.
"""

from typing import TYPE_CHECKING

from retrieval.declining import RIGHTLY, SIZES, WRONGLY, cases
from retrieval.sets import Labelled, catalogue
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search.answer import Answer
from wicket_mcp.search.confidence import DOUBT, interpolate
from wicket_mcp.search.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_ROUNDS = 100
_DRAWN = 4  # times as many catalogues as are measured: the fit should not depend on a few
_SIZE = -4  # the input that is the logarithm of the number of tools
_MARGIN = 0.9
_SETTLED = 30.0  # log odds of what is not in doubt, after the judge's


def main() -> None:
    answers: list[Answer] = []
    sizes: list[int] = []
    serves: list[bool] = []
    listings = Labelled("catalogue", "dev", list(catalogue()), []).listings()
    segments = {listing.server: build_segment(listing) for listing in listings}
    for case in cases(listings, "dev", _DRAWN):
        index = SearchIndex.load({one.server: (one, segments[one.server]) for one in case.listings})
        for served, queries in ((True, case.servable), (False, case.unservable)):
            answers += [index.search(query.text, thorough=True) for query in queries]
            sizes += [case.size] * len(queries)
            serves += [served] * len(queries)
    size, served = np.array(sizes), np.array(serves)
    seen = [answer.first for answer in answers]
    plain = np.array([evidence.inputs for evidence in seen], float)
    judged = np.array([answer.evidence.inputs_after_judge for answer in answers], float)
    everywhere = np.ones(len(seen), bool)
    first = _fit(plain, served, size, everywhere)
    at_first = _levels(plain @ first, served, size)
    odds = plain @ first - _interpolate(at_first, plain)
    least, most = (np.array([interpolate(DOUBT, evidence.tools, column) for evidence in seen]) for column in (1, 2))
    contrary = np.array([evidence.is_contrary for evidence in seen])
    doubtful = (odds > least) & ((odds < most) | contrary)
    second = _fit(judged, served, size, doubtful)
    settled = np.where(odds < 0, -_SETTLED, _SETTLED)
    after_judge = _levels(np.where(doubtful, judged @ second, settled), served, size)
    columns = zip(SIZES, at_first, after_judge, strict=True)
    levels = ", ".join(f"({each}, {one:.2f}, {two:.2f})" for each, one, two in columns)
    print(f"WEIGHTS = {_list(first)}\nJUDGED = {_list(second)}\nLEVELS = ({levels})")
    decided = np.where(doubtful, judged @ second - _interpolate(after_judge, plain), odds)
    for each in SIZES:
        of_size = size == each
        wrongly, rightly = (100 * (decided[of_size & (served == truth)] < 0).mean() for truth in (True, False))
        print(
            f"{each:5} tools: {100 * doubtful[of_size].mean():.0f} % in doubt; declines {wrongly:.1f} % of the "
            f"servable and {rightly:.1f} % of the others"
        )


def _fit(inputs: "Values", served: "Flags", size: "NDArray[np.int64]", rows: "Flags") -> "Values":
    """The weights, by Newton's method over standardised inputs; the last input is one."""
    chosen, truth = inputs[rows], served[rows].astype(float)
    group = 2 * np.searchsorted(list(SIZES), size[rows]) + served[rows]
    weight = 1 / np.bincount(group)[group]
    mean: Values = chosen.mean(0)
    spread: Values = chosen.std(0) + 1e-9
    mean[-1], spread[-1] = 0, 1
    standard = (chosen - mean) / spread
    found = np.zeros(chosen.shape[1])
    for _ in range(_ROUNDS):
        guess = 1 / (1 + np.exp(-np.clip(standard @ found, -30, 30)))
        slope = standard.T @ (weight * (truth - guess)) - 1e-4 * found
        curve = (standard * (weight * guess * (1 - guess))[:, None]).T @ standard + 1e-4 * np.eye(len(found))
        found = found + np.linalg.solve(curve, slope)
    weights = found / spread
    weights[-1] = found[-1] - (found[:-1] * mean[:-1] / spread[:-1]).sum()
    return weights


def _levels(evidence: "Values", served: "Flags", size: "NDArray[np.int64]") -> list[float]:
    """For each size the evidence below which an answer is best declined."""
    levels: list[float] = []
    for each in SIZES:
        servable, others = (np.sort(evidence[(size == each) & (served == truth)]) for truth in (True, False))
        limits = np.unique(np.concatenate((servable, others)))
        wrong = np.searchsorted(servable, limits) / len(servable) / (WRONGLY / 100)
        missed = (1 - np.searchsorted(others, limits) / len(others)) / (1 - RIGHTLY / 100)
        balance = np.where(wrong > _MARGIN, np.inf, np.maximum(wrong, missed))
        levels.append(float(limits[balance.argmin()]))
    return levels


def _interpolate(levels: list[float], inputs: "Values") -> "Values":
    return np.interp(inputs[:, _SIZE], np.log(list(SIZES)), levels)


def _list(weights: "Values") -> str:
    return f"({', '.join(f'{value:.2f}' for value in weights)})"


if __name__ == "__main__":
    main()
