"""All pairs of rankers and sets, the tables, and the verdicts on the targets."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import environments
from report import Verdict, number, save, table
from retrieval import declining, speed
from retrieval.child import child
from retrieval.metric import KEYS
from retrieval.rankers import ALL, LEXICAL
from retrieval.sets import OWN, ROOT, Labelled, catalogue, names
from wicket_mcp.codec import decode, encode

WANTED = 77.0
SLACK = 1.0
OWN_REPORT, OWN_RECALL, OWN_PARAPHRASE = "requests_report", 80.0, 50.0
"""Our own queries that were never tuned on, and the recall@5 wanted on all of them and on the paraphrases."""
INSTEAD = "wicket+minilm"
_NEEDED = ("bm25s", "fastmcp", "sklearn", "wordllama")
_COSTS = {"ms_p50": "ms a query, median", "build_s": "seconds to build", "mb": "MB of memory added"}
_NOT_IN_MEAN = ("scale_7625", *(f"{own}_{split}" for own in OWN for split in ("dev", "report")))


def main(usage: str) -> int:
    options = _options(usage)
    facts: list[dict[str, Any]] = []
    missing: list[str] = []
    if not options.speed:
        python = _python()
        sets = [name for name in options.sets.split(",") if name] or list(names(options.data))
        for ranker in options.rankers.split(","):
            for name in sets:
                found = one(python, ranker, name, options.data, options.limit)
                if "missing" in found:
                    missing.append(f"left out: {ranker} on {name} and what follows ({found['missing']})")
                    sys.stderr.write(f"{missing[-1]}\n")
                    break
                sys.stderr.write(f"{ranker} on {name}: nDCG@10 {found['nDCG@10']:.1f}, {found['ms_p50']:.2f} ms\n")
                facts.append(found)
    quick = speed.measure(options.data, options.rounds) if options.rounds else {}
    declined: dict[str, Any] = {}
    if not (options.speed or options.limit) and "wicket" in options.rankers.split(","):
        whole = Labelled("catalogue", "", list(catalogue()), []).listings()
        declined = {split: declining.measure(whole, split) for split in ("dev", "report")}
    verdicts = [*([] if options.limit else judge(facts)), *declining.judge(declined)]
    verdicts += speed.judge(quick) if quick else []
    if options.json:
        print(encode({"facts": facts, "declined": declined, "speed": quick}).decode())
    else:
        if facts:
            show(facts)
        declining.show(declined)
        if quick:
            speed.show(quick, options.rounds)
        print("\n".join((*missing, *map(str, verdicts))))
    if not (options.limit or options.speed or options.sets) and options.rankers == ",".join(ALL):
        save("search", {"facts": facts, "declined": declined, "speed": quick}, verdicts)
    return int(any(not verdict.met for verdict in verdicts))


def _options(usage: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "toolret")
    parser.add_argument("--sets", default="", help="these sets alone, separated by commas")
    parser.add_argument("--rankers", default=",".join(ALL), help="these rankers alone, separated by commas")
    parser.add_argument("--limit", type=int, default=0, help="a trial: so many queries of each set, over a few tools")
    parser.add_argument("--rounds", type=int, default=7, help="processes for each number on speed; 0 leaves it out")
    parser.add_argument("--speed", action="store_true", help="measure speed alone")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON instead of tables")
    return parser.parse_args()


def _python() -> str:
    """The interpreter that has the rankers' packages: this one, or that of an environment made for them."""
    if all(map(find_spec, _NEEDED)):
        return sys.executable
    try:
        return environments.program("rankers", "python")
    except environments.Missing as problem:
        sys.stderr.write(f"the rankers' environment cannot be made, so that some will be missing: {problem}\n")
        return sys.executable


def one(python: str, ranker: str, name: str, data: Path, limit: int) -> dict[str, Any]:
    done = child(python, "retrieval.one", ranker, name, str(data.absolute()), str(limit))
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return decode(done.stdout.splitlines()[-1])


def means(facts: list[dict[str, Any]]) -> dict[str, float]:
    """Mean nDCG@10 of every ranker over the sets that count."""
    counted: dict[str, list[float]] = {}
    for row in facts:
        if row["set"] not in _NOT_IN_MEAN:
            counted.setdefault(row["ranker"], []).append(row["nDCG@10"])
    return {ranker: fmean(values) for ranker, values in counted.items()}


def show(facts: list[dict[str, Any]]) -> None:
    rankers = list(dict.fromkeys(row["ranker"] for row in facts))
    sets = list(dict.fromkeys(row["set"] for row in facts))
    cells = {(row["set"], row["ranker"]): row for row in facts}
    for key, title in ({key: key for key in KEYS} | _COSTS).items():
        rows = [[s, *(_cell(cells.get((s, r)), key) for r in rankers)] for s in sets]
        if key == "nDCG@10":
            rows.append(["mean", *(number(means(facts).get(r, float("nan")), 1) for r in rankers)])
        print(f"\n{title}\n{table(['set', *rankers], rows)}")
    for name in sets:
        of_set = [row for row in facts if row["set"] == name and row["kinds"]]
        if of_set:
            kinds = list(of_set[0]["kinds"])
            rows = [[row["ranker"], *(number(row["kinds"][kind], 1) for kind in kinds)] for row in of_set]
            print(f"\nR@5 by kind, {name}\n{table(['ranker', *kinds], rows)}")
    for row in facts:
        if "declined" in row:
            print(f"\n{row['ranker']} on {row['set']}: confident about {row['confident']:.0f} % of requests that a")
            print(f"tool serves, declines {row['declined']:.0f} % of those that none does")


def _cell(row: dict[str, Any] | None, key: str) -> str:
    return "-" if row is None else number(row[key], 2 if key in ("ms_p50", "build_s") else 1)


def judge(facts: list[dict[str, Any]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    averages = means(facts)
    if (got := averages.get("wicket")) is not None:
        verdicts.append(Verdict(f"wicket: mean nDCG@10 at least {WANTED}", f"{got:.2f}", got >= WANTED))
    own = {row["ranker"]: row for row in facts if row["set"] == OWN_REPORT}
    if "wicket" in own:
        recall, paraphrase = own["wicket"]["R@5"], own["wicket"]["kinds"]["paraphrase"]
        target = f"wicket: recall@5 at least {OWN_RECALL} on {OWN_REPORT}, {OWN_PARAPHRASE} on its paraphrases"
        met = recall >= OWN_RECALL and paraphrase >= OWN_PARAPHRASE
        verdicts.append(Verdict(target, f"{recall:.1f} and {paraphrase:.1f}", met))
        if INSTEAD in own:
            other = own[INSTEAD]["R@5"]
            target = f"wicket: recall@5 on {OWN_REPORT} at least that of {INSTEAD}"
            verdicts.append(Verdict(target, f"{recall:.1f} and {other:.1f}", recall >= other))
    lexical: dict[str, float] = {}
    for row in facts:
        if row["ranker"] in LEXICAL:
            lexical[row["set"]] = max(lexical.get(row["set"], 0.0), row["nDCG@10"])
    ours = [row for row in facts if row["ranker"] == "wicket" and row["set"] in lexical]
    if ours:
        below, worst = max((lexical[row["set"]] - row["nDCG@10"], row["set"]) for row in ours)
        what = f"wicket: on no set more than {SLACK} below the best lexical baseline"
        verdicts.append(Verdict(what, f"at most {below:.2f} ({worst})", below <= SLACK))
    return verdicts
