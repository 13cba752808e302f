"""When search should say that nothing fits: catalogues of four sizes, each with queries that it can and cannot serve.

python -m retrieval.declining [TIMES]       (in bench/, with PYTHONPATH=../src; so many times as many catalogues)

A catalogue is made of whole servers, drawn by a seed. A query is servable where each of its errands has a tool there,
and unservable where none has; a query that is served in part is left out. Both halves of the project's own queries are
kept apart as everywhere.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from report import Verdict, number, table
from retrieval.sets import OWN, Labelled, Query, catalogue, own_queries
from wicket_mcp.model import Listing
from wicket_mcp.search import SearchIndex, build_segment

SIZES = {5: 60, 20: 40, 140: 10, 1966: 1}
"""Tools in a catalogue, and how many catalogues of that size are drawn."""
WRONGLY, RIGHTLY = 3.0, 80.0
"""Percent of the servable queries that may be declined, and of the unservable ones that should be."""
_MOST = 25
"""Unservable queries that are asked of one small catalogue: nearly all of them are."""


@dataclass(frozen=True)
class Case:
    """One catalogue with the queries that are asked of it."""

    size: int
    listings: Sequence[Listing]
    servable: Sequence[Query]
    unservable: Sequence[Query]


def cases(listings: Sequence[Listing], split: str, times: int = 1) -> Iterator[Case]:
    """`times` as many catalogues as SIZES says, but for the one of all tools."""
    queries = [query for own in OWN for query in own_queries(own, split)]
    for size, drawn in SIZES.items():
        for seed in range(drawn * times if drawn > 1 else 1):
            draw = random.Random(f"{size}/{seed}")
            chosen = list(_draw(listings, size, draw))
            there = {(tool.server, tool.name) for listing in chosen for tool in listing.tools}
            served = [[bool(group & there) for group in query.groups] for query in queries]
            servable = [query for query, groups in zip(queries, served, strict=True) if groups and all(groups)]
            unservable = [query for query, groups in zip(queries, served, strict=True) if not any(groups)]
            if len(chosen) < len(listings):
                unservable = draw.sample(unservable, min(_MOST, len(unservable)))
            yield Case(size, chosen, servable, unservable)


def _draw(listings: Sequence[Listing], size: int, draw: random.Random) -> Iterator[Listing]:
    left = size
    for listing in draw.sample(listings, len(listings)):
        if 0 < len(listing.tools) <= left:
            left -= len(listing.tools)
            yield listing


def measure(listings: Sequence[Listing], split: str, times: int = 1) -> dict[str, dict[str, float]]:
    """For each size: the shares of servable and of unservable queries that are declined, and how many there were."""
    counts: dict[int, list[int]] = {size: [0, 0, 0, 0] for size in SIZES}
    segments = {listing.server: build_segment(listing) for listing in listings}
    for case in cases(listings, split, times):
        index = SearchIndex.load({one.server: (one, segments[one.server]) for one in case.listings})
        row = counts[case.size]
        row[0] += sum(not index.search(query.text).confident for query in case.servable)
        row[1] += len(case.servable)
        row[2] += sum(not index.search(query.text).confident for query in case.unservable)
        row[3] += len(case.unservable)
    return {
        str(size): {"servable": served, "wrongly": 100 * wrong / served, "unservable": no, "rightly": 100 * right / no}
        for size, (wrong, served, right, no) in counts.items()
    }


def show(facts: dict[str, dict[str, dict[str, float]]]) -> None:
    """`facts` are what `measure` found, by half."""
    for split, sizes in facts.items():
        keys = ("servable", "wrongly", "unservable", "rightly")
        rows = [[size, *(number(row[key], int(key.endswith("ly"))) for key in keys)] for size, row in sizes.items()]
        headings = ["tools", "servable queries", "of them declined %", "unservable", "of them declined %"]
        print(f"\nDeclining, {split} half\n{table(headings, rows)}")


def judge(facts: dict[str, dict[str, dict[str, float]]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for size, row in facts.get("report", {}).items():
        measured = f"{row['wrongly']:.1f} % and {row['rightly']:.1f} %"
        target = (
            f"{size} tools: declines at most {WRONGLY:.0f} % of servable queries, at least {RIGHTLY:.0f} % of others"
        )
        verdicts.append(Verdict(target, measured, row["wrongly"] <= WRONGLY and row["rightly"] >= RIGHTLY))
    return verdicts


if __name__ == "__main__":
    _listings = Labelled("catalogue", "", list(catalogue()), []).listings()
    _times = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    show({split: measure(_listings, split, _times) for split in ("dev", "report")})
