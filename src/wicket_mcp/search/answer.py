"""What a search answers with: hits, and what to say when they are not good enough."""

from collections.abc import Mapping

import msgspec

from wicket_mcp.model import Hit


class Withheld(msgspec.Struct, frozen=True):
    """A tool that would have been among the best, but cannot be used now, and why."""

    hit: Hit
    reason: str


class Part(msgspec.Struct, frozen=True):
    """One of several requests in a query, and the keys of the hits that serve it, best first."""

    text: str
    tools: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True):
    """Why a tool stands where it stands. The first seven add up to `score`."""

    letters: float
    meaning: float
    part: float
    usage: float
    learned: float
    """What the caller's own choices after similar queries brought."""
    named: float
    """What the server's name in the query brought."""
    deprecated: float
    """What a tool loses that says it is deprecated, as a negative number."""
    score: float
    fields: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    """Share of `letters` that each field of the tool brought, the largest first."""
    words: tuple[str, ...] = ()
    """Words of the query that the tool's text has."""


class Answer(msgspec.Struct, frozen=True):
    """The tools that fit a query, best first. Not `confident` means that probably none does."""

    hits: tuple[Hit, ...]
    confident: bool
    nearest: tuple[str, ...] = ()
    """Servers closest to the query, for the sentence that says no tool fits."""
    withheld: tuple[Withheld, ...] = ()
    confidence: float = 0.0
    """How likely it is that a hit serves the query, from 0 to 1."""
    parts: tuple[Part, ...] = ()
    """For a query that asks for several things: which hit serves which."""
    unmentioned: tuple[str, ...] = ()
    """Products that the query names and no hit mentions; all of them where there is no hit."""
    missing_subjects: int = 0
    """Subjects of the query that no hit mentions."""
    closest: float = 0.0
    """The best cosine of meanings between the query and a hit."""
    size: int = 0
    """Tools that could have been hits."""
    words: int = 0
    """Words of the query that say something. The last five are what `confidence` is made of."""

    @property
    def doubt(self) -> str:
        """A sentence for an answer that is not confident: why, and which servers are nearest; else empty."""
        if self.confident:
            return ""
        none = "none of them" if self.hits else "none"
        why = f": {none} mentions {' or '.join(self.unmentioned)}" if self.unmentioned else ""
        near = f" Nearest servers: {', '.join(self.nearest)}." if self.nearest else ""
        return f"No tool clearly fits{why}.{near}"

    @property
    def tool_by_task(self) -> str:
        """Which tool serves which task, in one line, for a query with several tasks; empty otherwise."""
        served = [part for part in self.parts if part.tools]
        if len({part.tools[0] for part in served}) < 2:
            return ""
        return "; ".join(f'for "{part.text[:60]}": {part.tools[0]}' for part in served)
