"""One measurement of speed in a process of its own: the child of `speed.py`. Prints a line of JSON, in milliseconds.

python -m retrieval.timed numpy            how long numpy takes to import, with one thread as search uses it
python -m retrieval.timed load FILE        from nothing to an index that can be asked: imports, reading, joining
python -m retrieval.timed query FILE       how long a query takes, each of the project's own once after warming up

FILE is a store that `speed.py` has filled. Nothing is imported before its time is taken.
"""

import sys
import time
from importlib import import_module


def main() -> None:
    wanted, *rest = sys.argv[1:]
    facts = {"numpy": _numpy, "load": _load, "query": _query}[wanted](*rest)
    sys.stdout.write(repr(facts).replace("'", '"') + "\n")


class Laps:
    """Wall clock and processor time since the last lap, in milliseconds, by name."""

    def __init__(self) -> None:
        self.facts: dict[str, float] = {}
        self._at = time.perf_counter(), time.process_time()

    def __call__(self, name: str) -> None:
        wall, busy = self._at
        now = time.perf_counter(), time.process_time()
        self.facts |= {name: (now[0] - wall) * 1e3, f"{name}_cpu": (now[1] - busy) * 1e3}
        self.skip()

    def skip(self) -> None:
        self._at = time.perf_counter(), time.process_time()


def _numpy() -> dict[str, float]:
    laps = Laps()
    import_module("wicket_mcp.search.numeric")

    laps("numpy")
    return laps.facts


def _load(file: str) -> dict[str, float]:
    laps = Laps()
    from wicket_mcp.search import SearchIndex  # noqa: PLC0415  (this is what is timed)

    import_module("wicket_mcp.search.matrix")
    laps("imports")
    from retrieval.shelf import listings, segments  # noqa: PLC0415  (must not be loaded before)

    held = listings(file)
    laps.skip()
    stored = segments(file)
    laps("segments")
    index = SearchIndex.load({one.server: (one, stored[one.server]) for one in held})
    index.warm()
    laps("join")
    laps.facts["tools"] = len(index)
    return laps.facts


def _query(file: str) -> dict[str, float]:
    from retrieval.shelf import listings, queries, segments  # noqa: PLC0415  (the other modes must not load them)
    from wicket_mcp.search import SearchIndex  # noqa: PLC0415

    stored = segments(file)
    index = SearchIndex.load({one.server: (one, stored[one.server]) for one in listings(file)})
    asked = queries()
    for text in asked[:20]:
        index.search(text)
    took: list[float] = []
    busy = time.process_time()
    for text in asked:
        start = time.perf_counter()
        index.search(text)
        took.append((time.perf_counter() - start) * 1e3)
    busy = (time.process_time() - busy) * 1e3 / len(asked)
    took.sort()
    return {
        "tools": len(index),
        "p50": took[len(took) // 2],
        "p95": took[len(took) * 95 // 100],
        "cpu": busy,
    }


if __name__ == "__main__":
    main()
