"""What a search answers with: hits, and what to say when they are not good enough."""

from dataclasses import dataclass

from wicket.model import Hit


@dataclass(frozen=True, slots=True)
class Withheld:
    """A tool that would have been among the best, but cannot be used now, and why."""

    hit: Hit
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The tools that fit a query, best first. Not `confident` means that probably none does."""

    hits: tuple[Hit, ...]
    confident: bool
    nearest: tuple[str, ...] = ()
    """Servers closest to the query, for the sentence that says no tool fits."""
    withheld: tuple[Withheld, ...] = ()
