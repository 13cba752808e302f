"""What the conformance suite said of one target: data, and the few questions that are asked of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SEVERITY = ("INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE")


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at."""

    scenario: str
    id: str
    name: str
    status: str
    message: str = ""

    @property
    def key(self) -> str:
        return f"{self.scenario}: {self.id}/{self.name}"

    @property
    def passed(self) -> bool:
        return self.status == "SUCCESS"


class Report:
    """The checks of one run, by scenario. Of a check that was made several times, the worst verdict stands."""

    def __init__(
        self, scored: Iterable[str], checks: Mapping[str, Iterable[Check]], said: Mapping[str, str] | None = None
    ) -> None:
        self.scored = tuple(scored)
        self.checks = {scenario: tuple(_worst(found)) for scenario, found in checks.items()}
        self.said = dict(said or {})
        """The last words of the client that took part, by scenario."""

    def passes(self, scenario: str) -> bool:
        """As the suite itself decides: some check, and none of them a failure."""
        found = self.checks.get(scenario, ())
        return bool(found) and all(check.status != "FAILURE" for check in found)

    @property
    def score(self) -> tuple[int, int]:
        """How many of the scored scenarios that were run pass, and how many were run."""
        run = [scenario for scenario in self.scored if scenario in self.checks]
        return sum(map(self.passes, run)), len(run)

    @property
    def passing(self) -> frozenset[str]:
        return self._with("SUCCESS")

    @property
    def failing(self) -> frozenset[str]:
        return self._with("FAILURE")

    def _with(self, status: str) -> frozenset[str]:
        return frozenset(check.key for found in self.checks.values() for check in found if check.status == status)

    def find(self, key: str) -> Check | None:
        return next((check for found in self.checks.values() for check in found if check.key == key), None)

    def renewed(self, later: "Report") -> "Report":
        """This report with the scenarios of a later one in place of its own."""
        return Report(self.scored or later.scored, self.checks | later.checks, self.said | later.said)

    def __repr__(self) -> str:
        counts = Counter(check.status for found in self.checks.values() for check in found)
        told = ", ".join(f"{number} {status.lower()}" for status, number in sorted(counts.items()))
        return f"<Report {self.score[0]} of {self.score[1]} | {told}>"


def _worst(checks: Iterable[Check]) -> list[Check]:
    """One check for each key: the one with the gravest status."""
    kept: dict[str, Check] = {}
    for check in checks:
        known = kept.get(check.key)
        if known is None or SEVERITY.index(check.status) > SEVERITY.index(known.status):
            kept[check.key] = check
    return list(kept.values())
