"""Every fault and threat has a test, or a reason why there is none; and no test promises what nobody listed."""

import re
from pathlib import Path

import pytest

from tests.reliability.document import page
from tests.reliability.promises import BEFORE, FIGURES, MISSING, SUBJECTS, collect

pytestmark = pytest.mark.unit
FILE = Path(__file__).parents[2] / "docs" / "reliability.md"
SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def test_every_id_is_proven_or_named_as_missing_and_not_both() -> None:
    proven = {promise.id for promise in collect()}
    assert sorted(SUBJECTS.keys() - proven - MISSING.keys()) == [], "mark a test, or say in MISSING why there is none"
    assert sorted(proven & MISSING.keys()) == [], "there is a test now: take the line out of MISSING"


def test_every_marked_test_has_a_listed_id_and_a_sentence() -> None:
    assert [promise for promise in collect() if promise.id not in SUBJECTS] == []
    assert [promise for promise in collect() if not promise.sentence.endswith(".")] == []


def test_every_marked_test_has_its_id_in_its_name() -> None:
    names = [(promise.id.lower(), promise.test.rpartition("::")[2].split("_")) for promise in collect()]
    assert [(promise_id, words) for promise_id, words in names if promise_id not in words] == []


def test_a_reason_is_given_for_ids_that_exist() -> None:
    assert sorted((MISSING.keys() | FIGURES.keys()) - SUBJECTS.keys()) == []


def test_what_happened_before_is_told_for_everything_that_was_found() -> None:
    assert BEFORE.keys() == {promise_id for promise_id in SUBJECTS if promise_id[0] in "VD"}


def test_the_page_is_made_from_the_tests() -> None:
    assert FILE.read_text("utf-8") == page(), "run python -m tests.reliability.document docs/reliability.md"


def test_security_says_only_what_a_test_shows() -> None:
    """Every numbered promise ends with the ids of what proves it."""
    promises = re.split(r"^\d+\. ", SECURITY.read_text("utf-8").partition("\n## Posture")[0], flags=re.MULTILINE)[1:]
    proven = {promise.id for promise in collect()}
    assert len(promises) >= 8
    for promise in promises:
        named = re.search(r"\(((?:[FTV]\d+(?:, )?)+)\)\s*(?:\n\n|$)", promise)
        assert named is not None, f"name what proves it: {promise}"
        assert set(named[1].split(", ")) <= proven
