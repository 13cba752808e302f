"""All active records at one moment, with short ids and a search index over servers and their tools.

Immutable; a change creates a new one that indexes only what changed. Ranking uses the normal search: every record is a
listing whose first entry stands for the server itself.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wicket_mcp.model import Listing, Tool
from wicket_mcp.registry import server_json
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.segment import NoModel
from wicket_mcp.store.model import StoredRecord

ITSELF = ""
"""The name of the entry for the server itself, which no tool can have."""

_REINDEX_ALL = 100  # changed records from which indexing everything again is cheaper
_FLOOR = 0.2  # share of the best score below which a server is not a result


@dataclass(frozen=True, slots=True)
class Match:
    """A record that matches a query: how well, and through which of its tools."""

    record: StoredRecord
    score: float
    tools: tuple[str, ...]


@dataclass(frozen=True)
class RecordIndex:
    """The active records at one moment, by short id and by search."""

    stamp: tuple[int, float]
    records: dict[str, StoredRecord] = field(repr=False)
    index: SearchIndex

    @classmethod
    def empty(cls) -> "RecordIndex":
        return cls((0, -1.0), {}, SearchIndex.build((), model=NoModel()))

    def renew(self, stamp: tuple[int, float], records: Sequence[StoredRecord]) -> "RecordIndex":
        """The index with these records. Pure CPU; call it off the event loop."""
        now = {record.name: record for record in records}
        removed = self.records.keys() - now.keys()
        changed = [record for name, record in now.items() if not _same(self.records.get(name), record)]
        if len(removed) + len(changed) >= _REINDEX_ALL:
            return RecordIndex(stamp, now, SearchIndex.build((listing(record) for record in records), model=NoModel()))
        index = self.index
        for name in removed:
            index = index.without(name)
        for record in changed:
            index = index.with_listing(listing(record))
        return RecordIndex(stamp, now, index)

    @cached_property
    def ids(self) -> dict[str, str]:
        """The short id of every record: the part after the slash if that is unique, else the whole name."""
        short = {name: name.partition("/")[2] for name in self.records}
        shared = Counter(short.values())
        return {name: part if shared[part] == 1 else name for name, part in short.items()}

    @cached_property
    def _spellings(self) -> dict[str, str]:
        spellings = {server_json.title(record.body).lower(): name for name, record in self.records.items()}
        spellings |= {part.lower(): name for name, part in self.ids.items()}
        return spellings | {name.lower(): name for name in self.records}

    def get(self, name: str) -> StoredRecord | None:
        """The record with this id, name or title."""
        return self.records.get(self._spellings.get(name.lower(), ""))

    def filter(self, category: str = "", tags: Collection[str] = ()) -> list[str]:
        """Names of the records in this category and with any of these tags."""
        lowered = {tag.lower() for tag in tags}
        return [
            name
            for name, record in self.records.items()
            if (not category or server_json.category(record.body).lower() == category.lower())
            and (not lowered or lowered & {tag.lower() for tag in server_json.tags(record.body)})
        ]

    def search(self, query: str, names: Collection[str] | None = None) -> list[Match]:
        """Matching records, best first: a server has the score of its best entry, plus a little for further ones."""
        answer = self.index.search(query, limit=200, servers=names)
        scores: dict[str, float] = {}
        tools: dict[str, list[str]] = {}
        for hit in answer.hits:
            name = hit.tool.server
            scores[name] = hit.score if name not in scores else scores[name] + 0.05 * hit.score
            if hit.tool.name != ITSELF:
                tools.setdefault(name, []).append(hit.tool.name)
        best = max(scores.values(), default=0.0)
        ranked = sorted(scores, key=lambda name: (-scores[name], name))
        return [
            Match(self.records[name], scores[name], tuple(tools.get(name, ())[:5]))
            for name in ranked
            if scores[name] >= _FLOOR * best
        ]


def listing(record: StoredRecord) -> Listing:
    """A record as a listing for the search."""
    body = record.body
    words = ". ".join(
        part
        for part in (
            server_json.long_description(body),
            server_json.category(body),
            " ".join(server_json.tags(body)),
            server_json.author(body),
        )
        if part
    )
    itself = Tool(record.name, ITSELF, {"name": ITSELF, "title": server_json.title(body), "description": words})
    tools = [
        Tool(record.name, name, {"name": name, "description": text}) for name, text in server_json.tools(body).items()
    ]
    return Listing(record.name, tools=(itself, *tools))


def _same(old: StoredRecord | None, new: StoredRecord) -> bool:
    return old is not None and (old.version, old.updated_at) == (new.version, new.updated_at)
