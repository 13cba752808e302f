"""The answer of a search: hits, and what to say if they are not good enough."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from wicket_mcp.model import Hit
from wicket_mcp.search.confidence import Evidence


class Withheld(msgspec.Struct, frozen=True):
    """A tool that would be among the best but cannot be used now, and why."""

    hit: Hit
    reason: str


class Part(msgspec.Struct, frozen=True):
    """One of several requests in a query, and the keys of its hits, best first."""

    text: str
    tools: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True):
    """Why a tool has its rank. The first nine and `judged` add up to `score`."""

    letters: float
    meaning: float
    part: float
    reranked: float
    """What the second look at the best tools added or took away."""
    usage: float
    learned: float
    """The part from the caller's own choices after similar queries."""
    named: float
    """The part from the server's name in the query."""
    deprecated: float
    """The penalty for a deprecated tool, as a negative number; for its successor, what it is raised by."""
    intent: float
    """What the query's verb or negation adds or takes away."""
    score: float
    fields: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    """The share of `letters` that each field of the tool contributed, largest first."""
    words: tuple[str, ...] = ()
    """Words of the query that occur in the tool's text."""
    judged: float = 0.0
    """What the judge's order of a doubtful answer added or took away, or that the tool mentions a named product."""

    def as_hit(self, score: float) -> "Explanation":
        """Of the tool as it is in an answer, with its score there."""
        return replace(self, score=score, judged=score - self.score)


class Answer(msgspec.Struct, frozen=True):
    """The tools that fit a query, best first. Not `confident` means that probably none does."""

    hits: tuple[Hit, ...]
    confident: bool
    nearest: tuple[str, ...] = ()
    """Servers closest to the query, for the message that no tool fits."""
    withheld: tuple[Withheld, ...] = ()
    confidence: float = 0.0
    """How likely it is that a hit serves the query, from 0 to 1."""
    parts: tuple[Part, ...] = ()
    """For a query with several requests: which hit serves which."""
    unmentioned: tuple[str, ...] = ()
    """Products that the query names and no hit mentions; all of them if there are no hits."""
    evidence: Evidence = Evidence()
    """What `confidence` was computed from."""
    first: Evidence = Evidence()
    """The evidence at first look. The judge read the tools and changed their order only if that left it in doubt."""
    unindexed: tuple[str, ...] = ()
    """Servers that were not searched, because their long lists are still being indexed."""
    unread: tuple[int, int] = (0, 0)
    """The tools that the encoder has not read yet, and all that were searched."""

    @property
    def doubt(self) -> str:
        """A sentence for an answer that is not confident: why, and the nearest servers; otherwise empty."""
        if self.confident:
            return ""
        none = "none of them" if self.hits else "none"
        why = f": {none} mentions {' or '.join(self.unmentioned)}" if self.unmentioned else ""
        near = f" Nearest servers: {', '.join(self.nearest)}." if self.nearest else ""
        return f"No tool clearly fits{why}.{near}"

    @property
    def gap(self) -> str:
        """What was not searched, or not searched well; otherwise empty."""
        sentences: list[str] = []
        if self.unindexed:
            named = ", ".join(self.unindexed)
            sentences.append(f"Not searched: {named} (still being indexed; ask again in a moment).")
        if self.unread[0]:
            sentences.append("{:,} of {:,} tools not read yet: found by their words alone.".format(*self.unread))
        return " ".join(sentences)

    @property
    def tool_by_task(self) -> str:
        """Which tool serves which task, in one line, for a query with several tasks; empty otherwise."""
        served = [part for part in self.parts if part.tools]
        if len({part.tools[0] for part in served}) < 2:
            return ""
        return "; ".join(f'for "{part.text[:60]}": {part.tools[0]}' for part in served)
