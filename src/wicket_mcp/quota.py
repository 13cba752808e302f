"""Room for a limited number of entries: in total, and for each party.

One party's load never refuses another's within its share. Nobody may hold more than is left free, so one party alone
gets no more than half, and the last places go to those who hold few. What can be evicted goes when its place is needed:
the oldest of the party with the most, before one's own; then each gets its share, whoever came first. Knows neither
what its entries are nor where they live.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

PartyT = TypeVar("PartyT", bound=Hashable)
EntryT = TypeVar("EntryT", bound=Hashable)


class Quota(Generic[PartyT, EntryT]):
    """See the module's docstring. `evict` gives up an entry if it can, and says whether it did."""

    def __init__(
        self, name: str, *, total: int, per_party: int, evict: Callable[[EntryT], bool] = lambda _entry: False
    ) -> None:
        """`name` is what metrics call its entries."""
        self.name = name
        self.rejected = 0
        """How often there was no room."""
        self._total = total
        self._per_party = per_party
        self._evict = evict
        self._entries: dict[PartyT, dict[EntryT, None]] = {}
        """Of each party, oldest first."""
        self._size = 0

    def __repr__(self) -> str:
        parties = len(self._entries)
        return f"<Quota {self.name}: {self._size} of {self._total}, {parties} parties, {self.rejected} rejected>"

    def __len__(self) -> int:
        return self._size

    def held_by(self, party: PartyT) -> int:
        return len(self._entries.get(party, ()))

    def add(self, party: PartyT, entry: EntryT) -> bool:
        """Count an entry of the party; False if there is no room for it."""
        if entry in self._entries.get(party, ()):
            return True
        if not self._has_room(party) and not self._make_room(party):
            self.rejected += 1
            return False
        self._entries.setdefault(party, {})[entry] = None
        self._size += 1
        return True

    def remove(self, party: PartyT, entry: EntryT) -> None:
        """The entry is gone; one that is not counted is ignored."""
        own = self._entries.get(party, {})
        if entry not in own:
            return
        del own[entry]
        self._size -= 1
        if not own:
            del self._entries[party]

    def _has_room(self, party: PartyT) -> bool:
        held, free = self.held_by(party), self._total - self._size
        return held < self._per_party and held < free

    def _make_room(self, party: PartyT) -> bool:
        """Evict one entry of a party that holds more than this one, else one of its own."""
        held = self.held_by(party)
        if held < self._per_party:
            larger = [other for other, entries in self._entries.items() if len(entries) > held and other != party]
            for other in sorted(larger, key=self.held_by, reverse=True):
                if self._evict_oldest(other):
                    return True
        return self._evict_oldest(party)

    def _evict_oldest(self, party: PartyT) -> bool:
        for entry in tuple(self._entries.get(party, ())):
            if self._evict(entry):
                self.remove(party, entry)
                return True
        return False
