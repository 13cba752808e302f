"""The search index: immutable, made of one segment per server.

Adding or removing a server creates a new index that shares every other segment. Segments are joined at the first
search, so that a process that never searches never imports numpy. `search` filters, then ranks.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wicket_mcp.model import Listing, Tool
from wicket_mcp.schema.descriptions import deprecation
from wicket_mcp.search.answer import Answer, Explanation
from wicket_mcp.search.features import number
from wicket_mcp.search.fields import tool_text
from wicket_mcp.search.glossary import to_english
from wicket_mcp.search.intent import join_negations
from wicket_mcp.search.mentions import Mentioned, is_product, products, shorten_addresses
from wicket_mcp.search.misspelling import correct
from wicket_mcp.search.naming import Naming
from wicket_mcp.search.segment import Model, Segment, build_segment, cut_segment, learn_segment
from wicket_mcp.search.text import MAX_QUERY, stem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wicket_mcp.search.matrix import Matrix
    from wicket_mcp.search.numeric import np
    from wicket_mcp.search.wording import Wording

FEW_TOOLS = 48
"""So many tools are read by the encoder at once; more are read later."""
_REMEMBERED = 256
_STATEMENT = 300  # characters of what a tool says about being deprecated
_NAME = re.compile(r"[\w-]+")


class SearchIndex:
    """The tools of all listings, searchable. Safe to share between threads."""

    def __init__(self, parts: Mapping[str, tuple[Listing, bytes]], model: Model | None = None) -> None:
        self._parts = dict(parts)
        self._model = model

    @classmethod
    def build(cls, listings: Iterable[Listing], *, model: Model | None = None) -> "SearchIndex":
        """Index everything again. Pure CPU; call it off the event loop."""
        return cls({listing.server: (listing, build_segment(listing, model)) for listing in listings}, model)

    @classmethod
    def load(cls, parts: Mapping[str, tuple[Listing, bytes]], *, model: Model | None = None) -> "SearchIndex":
        """An index from stored segments; one that is missing or outdated is rebuilt at the first search."""
        return cls(parts, model)

    def with_listing(self, listing: Listing, segment: bytes = b"", *, learned: bool = True) -> "SearchIndex":
        """This index with `listing` in place of its server's earlier one, and its segment if that was built already;
        quick without the encoder's vectors."""
        segment = segment or build_segment(listing, self._model, learned=learned)
        return SearchIndex({**self._parts, listing.server: (listing, segment)}, self._model)

    def has_more_than(self, tools: Mapping[str, Sequence[Tool]]) -> bool:
        """Whether there is any other tool here than these, by server, which are among those of the listings."""
        return any(len(tools.get(name, ())) < len(listing.tools) for name, (listing, _) in self._parts.items())

    def narrow(self, tools: Mapping[str, Sequence[Tool]]) -> "SearchIndex":
        """An index of only these tools, by server, in which nothing tells that there are others. Tools with another
        name or description than here are read again. Pure CPU.
        """
        parts: dict[str, tuple[Listing, bytes]] = {}
        for name, (listing, data) in self._parts.items():
            offered = tuple(tools.get(name, ()))
            places = {id(tool): place for place, tool in enumerate(listing.tools)}
            positions = [places[id(tool)] for tool in offered if id(tool) in places]
            own = replace(listing, tools=offered)
            if len(positions) == len(listing.tools):
                parts[name] = listing, data
            elif len(positions) < len(offered):
                parts[name] = own, build_segment(own, self._model, learned=len(offered) <= FEW_TOOLS)
            elif offered:
                parts[name] = own, cut_segment(self._segments[name], positions, self._parts[name][1])
        return SearchIndex(parts, self._model)

    @cached_property
    def unlearned(self) -> frozenset[str]:
        """The servers whose tools the encoder has not read yet."""
        return frozenset(name for name, segment in self._segments.items() if not segment.is_learned)

    def unlearned_listings(self) -> list[Listing]:
        """Listings without vectors of the encoder, smallest first."""
        return sorted((self._parts[name][0] for name in self.unlearned), key=lambda listing: len(listing.tools))

    def learn(self, listing: Listing) -> bytes:
        """The listing's segment with the encoder's vectors. Pure CPU, several milliseconds per tool."""
        return learn_segment(self._parts[listing.server][1], listing, self._model)

    def with_segments(self, learned: Mapping[str, tuple[Listing, bytes]]) -> "SearchIndex":
        """This index with these segments, for listings that it still has."""
        current = {name: part for name, part in learned.items() if self._has(part[0])}
        return SearchIndex({**self._parts, **current}, self._model)

    def _has(self, listing: Listing) -> bool:
        return listing.server in self._parts and self._parts[listing.server][0] is listing

    def without(self, server: str) -> "SearchIndex":
        return SearchIndex({name: part for name, part in self._parts.items() if name != server}, self._model)

    def segment(self, server: str) -> bytes:
        """The bytes to store with the server's listing."""
        return self._parts[server][1]

    def __len__(self) -> int:
        return sum(len(listing.tools) for listing, _ in self._parts.values())

    def __repr__(self) -> str:
        return f"<SearchIndex {len(self)} tools of {len(self._parts)} servers>"

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        return tuple(tool for listing, _ in self._parts.values() for tool in listing.tools)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {tool.key: position for position, tool in enumerate(self._tools)}

    @cached_property
    def _deprecated(self) -> dict[int, int | None]:
        """The deprecated tools by position, each with the position of the tool that it names as its successor."""
        successors: dict[int, int | None] = {}
        for position, tool in enumerate(self._tools):
            if statement := deprecation(tool.description, _STATEMENT):
                named = (self._places.get(f"{tool.server}.{name}") for name in _NAME.findall(statement))
                successors[position] = next((other for other in named if other not in (None, position)), None)
        return successors

    def _demote(self, fit: "NDArray[np.float32]") -> dict[int, float]:
        """What a deprecated tool loses, by position, and what its successor gains, which serves whatever it did."""
        from wicket_mcp.search.choice import DEPRECATED  # noqa: PLC0415  (imports numpy)

        moves = dict.fromkeys(self._deprecated, -DEPRECATED)
        for position, successor in self._deprecated.items():
            if successor is not None and successor not in self._deprecated:
                moves[successor] = max(moves.get(successor, 0.0), float(fit[position] - fit[successor]))
        return moves

    @cached_property
    def _matrix(self) -> "Matrix":
        from wicket_mcp.search.matrix import Matrix  # noqa: PLC0415  (imports numpy, at the first search)

        return Matrix(list(self._segments.values()))

    @cached_property
    def _segments(self) -> dict[str, Segment]:
        segments: dict[str, Segment] = {}
        for name, (listing, data) in self._parts.items():
            segment = Segment.read(data, len(listing.tools), self._model)
            if segment is None:
                data = build_segment(listing, self._model, learned=False)
                self._parts[name] = (listing, data)
                segment = Segment.read(data, len(listing.tools), self._model)
            assert segment is not None  # noqa: S101  (just built)
            segments[name] = segment
        return segments

    def warm(self) -> None:
        """Join the segments now rather than at the first search. Pure CPU."""
        _ = self._matrix, self._places, self._deprecated, self.unlearned
        self._wording.warm()

    def search(
        self,
        query: str,
        *,
        limit: int = 5,
        servers: Collection[str] | None = None,
        visible: Callable[[Tool], bool] | None = None,
        usage: Mapping[str, int] | None = None,
        favourites: Collection[str] = (),
        lifts: Mapping[str, float] | None = None,
        trouble: Callable[[Tool], str] | None = None,
        size: int | None = None,
        thorough: bool = False,
    ) -> Answer:
        """The best tools for `query`.

        `visible` decides what may be ranked at all; `trouble` returns why a visible tool cannot be used now (empty: it
        can). `usage` counts past calls by tool key; `favourites` are tool keys; `lifts` is what the caller's choices
        after similar queries add to tools; `size` is the number of visible tools, by default all; `thorough` lets the
        judge read tools even if the first look leaves no doubt.
        """
        if not self._tools:
            return Answer((), confident=False, unmentioned=tuple(dict.fromkeys(products(query[:MAX_QUERY]))))
        from wicket_mcp.search.choice import Choice, prior  # noqa: PLC0415  (imports numpy)
        from wicket_mcp.search.places import Candidates  # noqa: PLC0415  (imports numpy)
        from wicket_mcp.search.ranker import score  # noqa: PLC0415  (imports numpy)

        original, query = self._read(query)
        scores = self._wording.weigh(query, score(self._matrix, query, self._model, original=original))
        lifts = lifts or {}
        added = {
            self._places[key]: prior(key, usage or {}, favourites) + lifts.get(key, 0.0)
            for key in {*(usage or {}), *favourites, *lifts}
            if key in self._places
        }
        for position, change in self._demote(scores.fit).items():
            added[position] = added.get(position, 0.0) + change
        for errand in scores.by_part:
            for position, change in self._demote(errand).items():
                errand[position] += change
        for server, gain in self._naming.gains(query).items():
            for position in self._positions[server] if gain else ():
                added[position] = added.get(position, 0.0) + gain
        learned = {self._places[key]: lift for key, lift in lifts.items() if key in self._places}
        gains, positions = self._naming.gains, self._slices
        size = len(self._tools) if size is None else size
        if servers is not None:
            size = min(size, sum(len(self._positions[server]) for server in servers if server in self._positions))
        candidates = Candidates(query, self._tools, scores, servers, visible, trouble, gains, positions)
        called = frozenset(self._wording.find_called(query))
        choice = Choice(candidates, added, learned, called, size, self._mentioned, self._judge(original))
        return choice.answer(limit, thorough=thorough)

    def judge(self, query: str, tools: Iterable[Tool]) -> list[float]:
        """What the judge says of tools, asked or not: a search asks it only if in doubt."""
        return self._judge(self._read(query)[0])([self._places[tool.key] for tool in tools])

    def _judge(self, query: str) -> Callable[[Sequence[int]], list[float]]:
        """Says of tools, by reading them beside the query: positive if one rather does what is asked, negative if not.
        The query is read at the first call."""
        from wicket_mcp.search.judge import packaged_judge  # noqa: PLC0415  (imports numpy)

        @cache
        def read_request() -> "NDArray[np.float32]":
            return packaged_judge().read_request(query)

        def weigh(positions: Sequence[int]) -> list[float]:
            return packaged_judge().weigh(read_request(), [self._reading(position) for position in positions]).tolist()

        return weigh

    def _reading(self, position: int) -> "NDArray[np.int8]":
        """What the judge read of the tool at a position when it was indexed; if it has not yet, it does so now."""
        from wicket_mcp.search.judge import packaged_judge  # noqa: PLC0415  (imports numpy)

        server = self._tools[position].server
        segment, place = self._segments[server], position - self._positions[server].start
        if len(segment.pieces):
            end = int(segment.pieces[: place + 1].sum(dtype="int64"))
            return segment.readings[end - int(segment.pieces[place]) : end]
        listing = self._parts[server][0]
        return packaged_judge().read_tool(tool_text(listing.tools[place], listing).meaning)

    def _read(self, query: str) -> tuple[str, str]:
        """The query for the encoder, which reads other languages, and in English for everything that compares words;
        with typing errors corrected if possible. The name of a tool stays as it is."""
        query = query[:MAX_QUERY]
        if self._wording.find_called(query):
            return query, query
        from wicket_mcp.search.static import packaged_table  # noqa: PLC0415  (imports numpy)

        def counts(candidates: Sequence[str]) -> list[int]:
            return self._matrix.counts([number(stem(word)) for word in candidates]).tolist()

        def counts_or_product(candidates: Sequence[str]) -> list[int]:
            """A product's name is a word even where no tool has it: the answer can say which product is missing."""
            counted = zip(candidates, counts(candidates), strict=True)
            return [tools or is_product(word) for word, tools in counted]

        query = shorten_addresses(query)
        table, english = packaged_table(), to_english(query)
        corrected = join_negations(correct(english, counts_or_product, table.commonness, table.knows), counts)
        return (corrected if english == query else query), corrected

    @cached_property
    def _naming(self) -> Naming:
        return Naming(self._parts)

    @cached_property
    def _wording(self) -> "Wording":
        from wicket_mcp.search.wording import Wording  # noqa: PLC0415  (imports numpy)

        return Wording(self._tools, self._naming)

    @cached_property
    def _mentioned(self) -> Callable[[int], Mentioned]:
        """What a tool mentions, by its position; kept for the tools that are shown often."""
        tools = self._tools

        @lru_cache(maxsize=_REMEMBERED)
        def read_text(position: int) -> Mentioned:
            return Mentioned(tools[position])

        return read_text

    @cached_property
    def _positions(self) -> dict[str, range]:
        """The positions of each server's tools."""
        ends = list(accumulate(len(listing.tools) for listing, _ in self._parts.values()))
        servers = zip(self._parts, [0, *ends], ends, strict=False)
        return {server: range(start, end) for server, start, end in servers}

    @cached_property
    def _slices(self) -> dict[str, slice]:
        return {name: slice(span.start, span.stop) for name, span in self._positions.items()}

    def explain(
        self,
        query: str,
        tool: Tool,
        *,
        usage: Mapping[str, int] | None = None,
        favourites: Collection[str] = (),
        lifts: Mapping[str, float] | None = None,
    ) -> Explanation:
        """The parts of the tool's score for `query`."""
        from wicket_mcp.search.explain import explain  # noqa: PLC0415  (imports numpy)
        from wicket_mcp.search.ranker import score  # noqa: PLC0415  (imports numpy)

        original, query = self._read(query)
        scores = self._wording.weigh(query, score(self._matrix, query, self._model, original=original))
        listing = self._parts[tool.server][0]
        learned = (lifts or {}).get(tool.key, 0.0)
        named, position = self._naming.gains(query).get(tool.server, 0.0), self._places[tool.key]
        demoted = self._demote(scores.fit).get(position, 0.0)
        return explain(scores, position, tool, listing, query, usage or {}, favourites, learned, named, demoted)
