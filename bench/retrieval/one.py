"""One ranker on one set, in a process of its own so that its memory is its own. Prints a line of JSON.

python -m retrieval.one RANKER SET FOLDER LIMIT
"""

import sys
import time
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from retrieval.metric import KEYS, measure
from retrieval.rankers import Meaning, Wicket, make
from retrieval.sets import OWN, Labelled, read
from wicket_mcp.codec import encode

_WARM_UP, _TIMED = 5, 120


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1e6


def run(name: str, data: Labelled, folder: Path) -> dict[str, Any]:
    ranker = make(name, folder)
    before, start = resident(), time.perf_counter()
    ranker.build(data)
    build, grown = time.perf_counter() - start, resident() - before
    timed: list[float] = []
    found: list[dict[str, float]] = []
    kinds: dict[str, list[float]] = {}
    own = data.name.rpartition("_")[0] in OWN
    for i, query in enumerate(data.queries):
        start = time.perf_counter()
        ranked = ranker.rank(query.text)
        if _WARM_UP <= i < _WARM_UP + _TIMED:
            timed.append((time.perf_counter() - start) * 1e3)
        if query.groups:
            found.append(measure(ranked, query))
            if own and isinstance(ranker, Wicket):  # what an agent is given, which is a choice among servers
                found[-1] |= {"R@5": measure(ranker.serve(query.text), query)["R@5"]}
            kinds.setdefault(query.kind, []).append(found[-1]["R@5"])
    means = {key: 100 * fmean(row[key] for row in found) for key in KEYS}
    cost = {"ms_p50": median(timed), "ms_p95": quantiles(timed, n=20)[-1], "build_s": build, "mb": grown}
    by_kind = {kind: 100 * fmean(values) for kind, values in kinds.items()} if own else {}
    judged = _abstention(ranker, data) if isinstance(ranker, Wicket) else {}
    if isinstance(ranker, Wicket | Meaning):
        ranker.close()
    size = {"tools": len(data.tools), "queries": len(data.queries)}
    return {"ranker": name, "set": data.name, "split": data.split, **size, **means, **cost, "kinds": by_kind, **judged}


def _abstention(ranker: Wicket, data: Labelled) -> dict[str, float]:
    """Share of answered queries that Wicket is confident about, and of unanswerable ones that it declines."""
    sure = [(bool(query.groups), ranker.index.search(query.text).confident) for query in data.queries]
    answered = [confident for wanted, confident in sure if wanted]
    declined = [not confident for wanted, confident in sure if not wanted]
    return {"confident": 100 * fmean(answered)} | ({"declined": 100 * fmean(declined)} if declined else {})


if __name__ == "__main__":
    _, _ranker, _set, _folder, _limit = sys.argv
    try:
        _facts = run(_ranker, read(Path(_folder), _set, int(_limit)), Path(_folder))
    except ImportError as problem:
        _facts = {"missing": f"{problem}"}
    sys.stdout.write(encode(_facts).decode() + "\n")
