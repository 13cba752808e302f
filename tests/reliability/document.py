"""Writes docs/reliability.md from the marked tests: `python -m tests.reliability.document docs/reliability.md`."""

import sys
from pathlib import Path

from tests.reliability.promises import BEFORE, FIGURES, MISSING, SUBJECTS, Promise, collect, order

KINDS = {
    "F": "Faults",
    "T": "Threats",
    "V": "Weaknesses that a review found",
    "D": "Defects that a run of faults found",
}

INTRODUCTION = """\
# What Wicket promises when things go wrong

Every promise has a test beside it, which uses real processes, sockets and files. Another test checks that no promise is
missing. A figure is the guaranteed limit, or the latest measurement, on two cores. *Before* says what happened with the
code in which a weakness or defect was found: there, what the test does fails. This page is written by
`python -m tests.reliability.document docs/reliability.md`.
"""


def page() -> str:
    """The whole document."""
    promises = collect()
    parts = [INTRODUCTION]
    for letter, title in KINDS.items():
        before = " before |" if letter in "VD" else ""
        rule = " --- |" * (6 if before else 5)
        parts.append(f"\n## {title}\n\n| | what happens |{before} promise | figure | test |\n|{rule}\n")
        parts += [_row(promise) for promise in promises if promise.id.startswith(letter)]
    if MISSING:
        parts.append("\n## Not yet\n\n| | what happens | why it is not promised |\n| --- | --- | --- |\n")
        parts += [f"| {key} | {SUBJECTS[key]} | {MISSING[key]} |\n" for key in sorted(MISSING, key=order)]
    return "".join(parts)


def _row(promise: Promise) -> str:
    file, _, name = promise.test.partition("::")
    figure = FIGURES.get(promise.id, "")
    before = f" {BEFORE[promise.id]} |" if promise.id in BEFORE else ""
    return f"| {promise.id} | {SUBJECTS[promise.id]} |{before} {promise.sentence} | {figure} | `{file}` `{name}` |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
