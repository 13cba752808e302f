"""Compares the arguments of one call with what its session has read. Pure, and in linear time.

A few values are looked for in the texts themselves. Many are looked for in their fingerprints, all at once. Too many
are not looked for: a call with so many counts as one that may have them from anywhere. May run in a thread, because it
keeps its own list of what was read.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from wicket_mcp.model import JsonObject
from wicket_mcp.trust.fingerprints import Fingerprints, marks_for, ways_of
from wicket_mcp.trust.matching import Candidate, Text, candidates_of
from wicket_mcp.trust.memory import Session, Source

FEW = 16  # values of a call that are looked for in every text
MOST = 4000  # values of a call that are looked for


class Comparison:
    """See the module's docstring."""

    def __init__(self, session: Session, arguments: JsonObject) -> None:
        self.sources = tuple(session.sources)
        """The latest read last."""
        self.lost = session.lost
        self._fields = session.fields
        self._arguments = arguments
        self._texts: dict[int, Text | Fingerprints] = {}
        self._ways: dict[Candidate, list[list[int]]] = {}

    @cached_property
    def by_first_reading(self) -> list[Source]:
        """What came first is the origin; a later result may only repeat it."""
        return sorted(self.sources, key=lambda source: source.number)

    @cached_property
    def _candidates(self) -> dict[str, list[Candidate]]:
        left, candidates = MOST + 1, dict[str, list[Candidate]]()
        for name, value in self._arguments.items():
            candidates[name] = list(dict.fromkeys(islice(candidates_of(name, value), left)))
            left -= len(candidates[name])
        return candidates

    @cached_property
    def _marks(self) -> frozenset[int] | None:
        """All that is looked for, if it is much."""
        if sum(map(len, self._candidates.values())) <= FEW:
            return None
        return frozenset(
            mark for values in self._candidates.values() for candidate in values for mark in marks_for(candidate)
        )

    @cached_property
    def has_too_many(self) -> bool:
        return sum(map(len, self._candidates.values())) > MOST

    def copies(self, name: str, source: Source, *, whole: bool = False) -> list[Candidate]:
        """What an argument has of the prose of a result, and with `whole` also of its whole fields.

        Else what is a whole field of any result counts as known; a short value counts even then.
        """
        text = self._text_of(source)
        if whole:
            return [
                candidate
                for candidate in self._candidates[name]
                if text.has_field(candidate) or self._has(text, candidate)
            ]
        return [candidate for candidate in self._unknown[name] if self._has(text, candidate)]

    def trusted_before(self, source: Source, candidates: list[Candidate]) -> bool:
        """Whether the session had read all of these before, and no one else can have written it."""
        earlier = [entry for entry in self.by_first_reading if entry.number < source.number]
        texts = [self._text_of(entry) for entry in earlier if not entry.labels.untrusted]
        return all(any(text.says(candidate) for text in texts) for candidate in candidates)

    @cached_property
    def _unknown(self) -> dict[str, list[Candidate]]:
        return {
            name: [candidate for candidate in candidates if candidate.field or not self._is_known(candidate)]
            for name, candidates in self._candidates.items()
        }

    def _has(self, text: Text | Fingerprints, candidate: Candidate) -> bool:
        if isinstance(text, Text):
            return text.has(candidate)
        if candidate not in self._ways:
            self._ways[candidate] = ways_of(candidate)
        return text.has_marks(self._ways[candidate])

    def _is_known(self, candidate: Candidate) -> bool:
        return candidate.key in self._fields or any(text.has_field(candidate) for text in self._old_texts)

    @cached_property
    def _old_texts(self) -> list[Text | Fingerprints]:
        return [self._text_of(source) for source in self.sources if source.is_labelled and not source.size]

    def _text_of(self, source: Source) -> Text | Fingerprints:
        if self._marks is None:
            return source.text
        if source.number not in self._texts:
            self._texts[source.number] = source.take_fingerprints().within(self._marks)
        return self._texts[source.number]

    def read_by(self, run: str) -> list[Source]:
        """The labelled texts that a script has read, the latest first."""
        return list(read_by(run, self.sources))


def read_by(run: str, sources: tuple[Source, ...]) -> Iterator[Source]:
    """The labelled texts that a script has read, the latest first."""
    if run:
        labelled = (source for source in reversed(sources) if source.is_labelled)
        yield from (source for source in labelled if source.run == run and source.has_prose)
