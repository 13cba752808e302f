"""The search index: immutable, made of one segment per server.

Adding or dropping a server makes a new index that shares every other segment. Joining segments waits for the
first search, so that a process which never searches never imports numpy.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from wicket.core.search.answer import Answer, Withheld
from wicket.core.search.segment import Segment, build_segment
from wicket.core.search.text import terms
from wicket.model import Hit, Listing, Tool

if TYPE_CHECKING:
    from wicket.core.search.lexical import Lexicon

_CONFIDENT = 1.0


class SearchIndex:
    """All listings' tools, searchable. Safe to share between threads."""

    def __init__(self, parts: Mapping[str, tuple[Listing, bytes]]) -> None:
        self._parts = dict(parts)

    @classmethod
    def build(cls, listings: Iterable[Listing]) -> "SearchIndex":
        """Index everything anew. Pure CPU; call it away from the event loop."""
        return cls({listing.server: (listing, build_segment(listing)) for listing in listings})

    @classmethod
    def load(cls, parts: Mapping[str, tuple[Listing, bytes]]) -> "SearchIndex":
        """An index from stored segments; one that is missing or outdated is rebuilt at the first search."""
        return cls(parts)

    def with_listing(self, listing: Listing) -> "SearchIndex":
        """This index with `listing` in place of what its server had before."""
        return SearchIndex({**self._parts, listing.server: (listing, build_segment(listing))})

    def without(self, server: str) -> "SearchIndex":
        return SearchIndex({name: part for name, part in self._parts.items() if name != server})

    def segment(self, server: str) -> bytes:
        """The bytes to store beside the server's listing."""
        return self._parts[server][1]

    def __len__(self) -> int:
        return sum(len(listing.tools) for listing, _ in self._parts.values())

    def __repr__(self) -> str:
        return f"<SearchIndex {len(self)} tools of {len(self._parts)} servers>"

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        return tuple(tool for listing, _ in self._parts.values() for tool in listing.tools)

    @cached_property
    def _lexicon(self) -> "Lexicon":
        from wicket.core.search.lexical import Lexicon  # noqa: PLC0415  (imports numpy, at the first search)

        segments: list[Segment] = []
        for listing, data in self._parts.values():
            segment = Segment.read(data, len(listing.tools)) or Segment.read(
                build_segment(listing), len(listing.tools)
            )
            assert segment is not None  # noqa: S101  (just built)
            segments.append(segment)
        return Lexicon(segments)

    def search(
        self,
        query: str,
        *,
        limit: int = 5,
        servers: Collection[str] | None = None,
        visible: Callable[[Tool], bool] | None = None,
        usage: Mapping[str, int] | None = None,
        trouble: Callable[[Tool], str] | None = None,
    ) -> Answer:
        """The best tools for `query`.

        `visible` decides what may be ranked at all; `trouble` names, for a tool that may be seen, why it
        cannot be used now (empty: it can). `usage` counts past calls by tool key.
        """
        scores = self._lexicon.scores(terms(query))
        order: list[int] = scores.argsort(kind="stable")[::-1].tolist()
        hits: list[Hit] = []
        withheld: list[Withheld] = []
        for position in order:
            score = float(scores[position])
            if score <= 0 or len(hits) >= limit:
                break
            tool = self._tools[position]
            if (servers is not None and tool.server not in servers) or (
                visible is not None and not visible(tool)
            ):
                continue
            if trouble is not None and (reason := trouble(tool)):
                withheld.append(Withheld(Hit(tool, score), reason))
                continue
            hits.append(Hit(tool, score))
        confident = bool(hits) and hits[0].score >= _CONFIDENT
        nearest = tuple(dict.fromkeys(hit.tool.server for hit in hits))[:3]
        return Answer(tuple(hits), confident, () if confident else nearest, tuple(withheld[:3]))
