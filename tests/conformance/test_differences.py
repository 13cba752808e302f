"""How two reports are compared."""

from tests.conformance.differences import compare
from tests.conformance.report import Check, Report


def report(**statuses: str) -> Report:
    return Report(["s"], {"s": [Check("s", name, name, status) for name, status in statuses.items()]})


def differing(direct: Report, through: Report) -> set[tuple[str, str, str]]:
    found = compare("server", "2026-07-28", "http", direct, through)
    return {(one.check, one.direct, one.wicket) for one in found}


def test_a_check_that_passes_on_one_side_only_is_a_difference() -> None:
    direct = report(same="SUCCESS", lost="SUCCESS", skipped="SUCCESS", gained="FAILURE")
    through = report(same="SUCCESS", skipped="SKIPPED", gained="SUCCESS")
    assert differing(direct, through) == {
        ("s: lost/lost", "SUCCESS", "absent"),
        ("s: skipped/skipped", "SUCCESS", "SKIPPED"),
        ("s: gained/gained", "FAILURE", "SUCCESS"),
    }


def test_a_check_made_only_through_wicket_is_a_difference_when_it_fails() -> None:
    assert differing(report(), report(more="SUCCESS")) == set()
    assert differing(report(), report(more="FAILURE")) == {("s: more/more", "absent", "FAILURE")}


def test_the_worst_verdict_on_a_check_stands_and_a_failure_fails_its_scenario() -> None:
    twice = Report(["s"], {"s": [Check("s", "a", "a", status) for status in ("SUCCESS", "FAILURE", "SUCCESS")]})
    assert not twice.passes("s")
    assert twice.score == (0, 1)
    assert twice.failing == {"s: a/a"}


def test_a_scenario_without_checks_does_not_pass() -> None:
    assert Report(["s"], {"s": []}).score == (0, 1)
