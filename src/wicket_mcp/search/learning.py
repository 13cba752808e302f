"""What search learns from use: which tool a principal called after which query.

A query is stored as the numbers of its words' stems. When the same principal uses similar words again, the tools that
it called then get a bonus, which shrinks with time. Nothing is shared between principals, and storage is bounded. The
finder records searches here and reads bonuses; the audit reports calls. Knows neither ranking nor kinds of store.
"""

import logging
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import sqrt

import msgspec

from wicket_mcp.errors import WicketError
from wicket_mcp.search.features import stem_numbers
from wicket_mcp.search.text import words
from wicket_mcp.store.base import ChoiceStore
from wicket_mcp.store.model import CallRecord, StoredChoice
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

LIFT = 0.4
"""The most that past choices can add to a tool's score, which lies between 0 and 1."""
ALIKE = 0.6
"""The cosine of two queries' stems from which they count as the same request."""
HALF_LIFE = 30 * 86400.0
KEPT = 256
"""Stored choices per principal; the oldest are dropped."""
_PRINCIPALS = 256
_SEARCHES = 4  # a call belongs to one of this many last searches of its principal
_SOON = 600.0  # seconds after a search in which a call belongs to it
_CALLS = 3  # different tools that are learned for one search
_UNSHOWN = 0.5  # the weight of a call of a tool that the search did not show: it may be unrelated
_STEMS = 32
_FRESH = 60.0

Query = frozenset[int]


class _Search(msgspec.Struct):
    query: Query
    shown: frozenset[str]
    at: float
    called: set[str] = msgspec.field(default_factory=set[str])


class _Past(msgspec.Struct):
    """One principal's searches and choices."""

    read_at: float = float("-inf")
    searches: deque[_Search] = msgspec.field(default_factory=lambda: deque[_Search](maxlen=_SEARCHES))
    choices: dict[tuple[Query, str], tuple[float, float]] = msgspec.field(
        default_factory=dict[tuple[Query, str], tuple[float, float]]
    )
    """Weight and time of the last call, by query and tool."""


class Learning:
    """The choices of the principals that searched most recently. Belongs to one event loop."""

    def __init__(self, store: ChoiceStore, *, enabled: bool = True, clock: Callable[[], float] = time.time) -> None:
        self._enabled = enabled
        self._store = store
        self._clock = clock
        self._past: OrderedDict[str, _Past] = OrderedDict()
        self._tasks = Tasks()

    async def lifts(self, query: str, principal: str) -> Mapping[str, float]:
        """The bonus for tools that this principal called after similar queries, by tool key."""
        stems = _stems(query)
        if not self._enabled or not stems:
            return {}
        past = self._of(principal)
        now = self._clock()
        if now - past.read_at >= _FRESH:
            await self._read(principal, past, now)
        lifts: dict[str, float] = {}
        for (known, tool), (weight, at) in past.choices.items():
            alike = len(known & stems) / sqrt(len(known) * len(stems))
            if alike >= ALIKE:
                faded = weight * 0.5 ** (max(0.0, now - at) / HALF_LIFE)
                lift = LIFT * (1 - 0.5**faded) * (alike - ALIKE / 2) / (1 - ALIKE / 2)
                lifts[tool] = max(lift, lifts.get(tool, 0.0))
        return lifts

    def reconfigure(self, *, enabled: bool) -> None:
        """Switch learning, and the use of what was learned, on or off."""
        self._enabled = enabled

    def note_search(self, query: str, principal: str, hits: Iterable[str]) -> None:
        """Remember a search for the calls that may follow."""
        stems = _stems(query)
        if self._enabled and stems:
            self._of(principal).searches.append(_Search(stems, frozenset(hits), self._clock()))

    def hear(self, records: Sequence[CallRecord]) -> None:
        """Learn from calls whose principals searched shortly before. Never waits."""
        if self._past and self._enabled:
            for record in records:
                self._hear(record)

    def _hear(self, record: CallRecord) -> None:
        past = self._past.get(record.owner)
        if past is None or record.method != "tools/call" or record.outcome not in ("ok", "cached"):
            return
        tool = f"{record.server}.{record.tool}"
        search = _search_of(past.searches, tool, record.at)
        if search is None or tool in search.called or len(search.called) >= _CALLS:
            return
        search.called.add(tool)
        weight = 1.0 if tool in search.shown else _UNSHOWN
        before, _ = past.choices.get((search.query, tool), (0.0, 0.0))
        past.choices[search.query, tool] = before + weight, record.at
        choice = StoredChoice(record.owner, _pack(search.query), tool, weight, record.at)
        self._tasks.start(self._keep(choice), "keep what a search led to")

    async def close(self) -> None:
        await self._tasks.wait()

    def _of(self, principal: str) -> _Past:
        past = self._past.setdefault(principal, _Past())
        self._past.move_to_end(principal)
        if len(self._past) > _PRINCIPALS:
            self._past.popitem(last=False)
        return past

    async def _read(self, principal: str, past: _Past, now: float) -> None:
        before, past.read_at = past.read_at, now
        try:
            stored = await self._store.choices(principal)
        except WicketError as problem:  # ranking works without it, and the store is asked again later
            log.info("what searches led to could not be read: %s", problem)
            return
        choices = {(_unpack(choice.query), choice.tool): (choice.weight, choice.at) for choice in stored}
        for key, (weight, at) in past.choices.items():  # what is learned since is not all stored yet
            if at >= before - _FRESH and at >= choices.get(key, (0.0, at))[1]:
                choices[key] = max(weight, choices.get(key, (0.0, at))[0]), at
        past.choices = choices

    async def _keep(self, choice: StoredChoice) -> None:
        try:
            await self._store.add_choice(choice, KEPT)
        except WicketError as problem:  # it is known until this process ends
            log.info("what a search led to could not be stored: %s", problem)


def _search_of(searches: Collection[_Search], tool: str, at: float) -> _Search | None:
    """The search that a call followed: the latest that showed its tool, else the latest."""
    before = [search for search in searches if 0 <= at - search.at <= _SOON]
    showing = [search for search in before if tool in search.shown]
    return (showing or before or [None])[-1]


def _stems(query: str) -> Query:
    return frozenset(sorted(set(stem_numbers(words(query))))[:_STEMS])


def _pack(query: Query) -> bytes:
    return struct.pack(f"<{len(query)}I", *sorted(query))


def _unpack(query: bytes) -> Query:
    return frozenset(struct.unpack(f"<{len(query) // 4}I", query))
