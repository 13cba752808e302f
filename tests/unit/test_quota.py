"""Quotas: bounded in total and for each party, and one party's load never refuses another's within its share."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.quota import Quota

pytestmark = pytest.mark.unit

PARTIES = st.sampled_from("abcdefghij")
STEPS = st.lists(st.tuples(st.sampled_from(("add", "add", "add", "end", "remove")), PARTIES, st.integers(0, 30)))


@dataclass
class Model:
    """A quota, and what a reader of its contract knows about it. Entries that have ended can be evicted."""

    total: int
    per_party: int
    quota: Quota[str, tuple[str, int]] = field(init=False)
    held: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    ended: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    evicted: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    added: int = 0

    def __post_init__(self) -> None:
        self.quota = Quota("entries", total=self.total, per_party=self.per_party, evict=self._evict)

    def _evict(self, entry: tuple[str, int]) -> bool:
        if entry in self.ended:
            self.held.remove(entry)
            self.evicted.append(entry)
        return entry in self.ended

    def of(self, party: str) -> list[tuple[str, int]]:
        return [entry for entry in self.held if entry[0] == party]

    def add(self, party: str) -> bool:
        entry, self.added = (party, self.added), self.added + 1
        admitted = self.quota.add(party, entry)
        if admitted:
            self.held.append(entry)
        return admitted

    def remove(self, entry: tuple[str, int]) -> None:
        self.held.remove(entry)
        self.quota.remove(entry[0], entry)


@given(st.integers(1, 30), st.integers(1, 12), STEPS)
def test_it_is_bounded_and_takes_only_from_those_with_more(
    total: int, per_party: int, steps: list[tuple[str, str, int]]
) -> None:
    model = Model(total, per_party)
    for verb, party, number in steps:
        own = model.of(party)
        if verb == "add":
            counts = {other: len(model.of(other)) for other in "abcdefghij"}
            oldest = {entry[0]: entry for entry in reversed(model.held) if entry in model.ended}
            gone = len(model.evicted)
            admitted = model.add(party)
            for entry in model.evicted[gone:]:
                assert entry[0] == party or counts[entry[0]] > counts[party], "nobody with less gives way"
                assert entry == oldest[entry[0]], "the oldest that can go"
            larger = [other for other in oldest if other == party or counts[other] > counts[party]]
            if counts[party] >= per_party:
                assert admitted == (party in oldest)
            elif larger:
                assert admitted
        elif verb == "end" and own:
            model.ended.add(own[number % len(own)])
        elif own:
            model.remove(own[number % len(own)])
        assert len(model.quota) == len(model.held) <= total
        assert all(model.quota.held_by(other) == len(model.of(other)) <= per_party for other in "abcdefghij")


@given(st.integers(1, 60), st.integers(1, 60), st.lists(PARTIES, max_size=200), st.booleans())
def test_ended_entries_of_others_never_refuse_a_party_within_its_share(
    total: int, per_party: int, load: list[str], ends_late: bool
) -> None:
    model = Model(total, per_party)
    for party in load:
        if model.add(party) and not ends_late:
            model.ended.add(model.held[-1])
    model.ended.update(model.held)
    parties = len({entry[0] for entry in model.held} | {"newcomer"})
    for _ in range(min(per_party, total // (parties + 1))):
        assert model.add("newcomer")


@given(st.integers(2, 200), st.integers(1, 200), st.integers(0, 300))
def test_one_party_that_lets_nothing_go_leaves_the_others_their_share(total: int, per_party: int, load: int) -> None:
    model = Model(total, per_party)
    for _ in range(load):
        model.add("greedy")
    for _ in range(min(per_party, total // 4)):
        assert model.add("newcomer")


def test_the_last_places_are_for_those_who_hold_few() -> None:
    model = Model(100, 50)
    for party in "abcde":
        for _ in range(100):
            model.add(party)
    assert [len(model.of(party)) for party in "abcde"] == [50, 25, 13, 6, 3]
    assert model.add("newcomer")


def test_an_entry_is_counted_once_and_what_is_not_counted_cannot_be_removed() -> None:
    quota: Quota[str, int] = Quota("entries", total=1, per_party=1)
    assert quota.add("a", 1)
    assert quota.add("a", 1)
    assert not quota.add("b", 2)
    assert repr(quota) == "<Quota entries: 1 of 1, 1 parties, 1 rejected>"
    quota.remove("b", 2)
    quota.remove("a", 2)
    assert not quota.add("b", 2)
    quota.remove("a", 1)
    assert quota.add("b", 2)
