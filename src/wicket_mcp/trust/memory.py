"""What every session has read, for the rules about data flow: nothing that has a label is forgotten silently.

The latest results are kept as texts, older ones as fingerprints (`fingerprints.py`), within bounds for each principal,
whose own oldest go first. A session that has lost even these, or that was dropped as a whole, keeps their labels and
counts as one that may have anything from there (`Session.lost`). Kept in this process only; outlives a configuration.
Decides nothing (`flow.py`).
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Reversible, Sequence

import msgspec
from msgspec.structs import replace

from wicket_mcp.model import Caller
from wicket_mcp.telemetry.log import quote_name
from wicket_mcp.trust.fingerprints import Fingerprints
from wicket_mcp.trust.matching import Text
from wicket_mcp.trust.sources import Labels

MAX_SESSIONS = 256  # of a principal
MAX_SOURCES = 256  # results of a session that are kept as texts
MAX_TEXT = 1024**2  # characters of results that are kept as texts for a session
MAX_OWN_TEXT = 16 * 1024**2  # and for all sessions of a principal
MAX_ALL_TEXT = 256 * 1024**2  # and for all principals, of which each has the same share
MAX_MARKS = 1024**2  # fingerprints of a principal
MAX_ALL_MARKS = 32 * 1024**2
MAX_DROPPED = 65_536  # sessions of a principal that are remembered as dropped
_LEAST = 256  # marks that a result counts at least, so that there are not too many to ask
_QUICK = 32_768  # characters whose fingerprints are taken at once


class Source(msgspec.Struct, eq=False):
    """One result: its text and where it came from."""

    tool: str
    at: float
    run: str
    labels: Labels
    text: Text | Fingerprints
    asked: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])
    """The tools that its prose was searched for, and whether it asks for their effect: a long text is searched once."""
    number: int = 0
    """Its position in the session's reading order, by first reading."""
    key: tuple[str, str, int] = ("", "", 0)
    """By which a repeated result is known."""
    has_prose: bool = True
    fingerprints: Fingerprints | None = None
    """Taken when they are first needed."""

    @classmethod
    def of(cls, tool: str, run: str, labels: Labels, text: Text) -> "Source":
        return cls(tool, time.time(), run, labels, text, key=(tool, run, hash(text)), has_prose=bool(text.prose))

    @property
    def fields(self) -> Collection[str]:
        return self.text.fields if isinstance(self.text, Text) else ()

    @property
    def size(self) -> int:
        """Its characters, as long as these are kept."""
        return len(self.text) if isinstance(self.text, Text) else 0

    @property
    def marks(self) -> int:
        """What its fingerprints count, once they are all that is kept."""
        return 0 if isinstance(self.text, Text) else max(_LEAST, len(self.text))

    @property
    def is_labelled(self) -> bool:
        return self.labels.untrusted or self.labels.private

    @property
    def server(self) -> str:
        return self.tool.partition(".")[0]

    @property
    def words(self) -> str:
        tool = quote_name(self.tool)
        kind = f"{self.labels.kind} that {tool} gave" if self.labels.kind else f"what {tool} gave"
        return f"{kind} {_moment(self.at)}"

    def asks_for(self, tool: str) -> bool:
        if tool not in self.asked:
            self.asked[tool] = self.text.asks_for(tool)
        return self.asked[tool]

    def take_fingerprints(self) -> Fingerprints:
        if isinstance(self.text, Fingerprints):
            return self.text
        if self.fingerprints is None:
            self.fingerprints = Fingerprints.of(self.text)
        return self.fingerprints


class Session:
    """What one session has read, the latest last; repeated results are kept once."""

    def __init__(self, lost: Labels | None = None) -> None:
        self.lost = lost
        """The labels of what it has read and nothing remains of; None if that had none."""
        self.fields: Counter[str] = Counter()
        """The keys of the whole fields of all labelled texts, and in how many each occurs."""
        self._sources: OrderedDict[tuple[str, str, int], Source] = OrderedDict()
        self._texts: OrderedDict[tuple[str, str, int], Source] = OrderedDict()
        """Those of the sources that are kept as texts."""
        self._numbers = 0
        self.size = 0
        """The characters of all texts."""
        self.marks = 0

    @property
    def sources(self) -> Reversible[Source]:
        return self._sources.values()

    @property
    def texts(self) -> int:
        return len(self._texts)

    @property
    def labels(self) -> Labels | None:
        """The labels of everything that it has read; None if there are none."""
        labelled = [source.labels for source in self.sources if source.is_labelled]
        labelled += [] if self.lost is None else [self.lost]
        return join(labelled) if labelled else None

    def add(self, source: Source) -> None:
        if (entry := self._sources.get(source.key)) is not None:
            entry.at = source.at
            if not entry.is_labelled and source.is_labelled:
                self.fields.update(entry.fields)
            entry.labels = replace(join((entry.labels, source.labels)), kind=entry.labels.kind)
            for sources in (self._sources, self._texts):
                if source.key in sources:
                    sources.move_to_end(source.key)
            return
        self._numbers += 1
        source.number = self._numbers
        self._sources[source.key] = self._texts[source.key] = source
        self.size += source.size
        if source.is_labelled:
            self.fields.update(source.fields)

    def oldest_texts(self) -> Iterator[Source]:
        return iter(self._texts.values())

    def excess(self) -> list[Source]:
        """The oldest texts, as many as are too many for the session; the latest stays."""
        size, texts, surplus = self.size, self.texts, list[Source]()
        if size > MAX_TEXT or texts > MAX_SOURCES:
            for source in self.oldest_texts():
                if texts > 1 and (size > MAX_TEXT or texts > MAX_SOURCES):
                    surplus.append(source)
                    size -= source.size
                    texts -= 1
        return surplus

    def fade(self, source: Source) -> None:
        """Keep only the fingerprints of a result."""
        if source.key in self._texts:
            self._let_go(source)
            source.text, source.fingerprints = source.take_fingerprints(), None
            self.marks += source.marks

    def lose(self, source: Source) -> None:
        """Forget the fingerprints of a result, but not that it had labels."""
        del self._sources[source.key]
        self.marks -= source.marks
        if source.is_labelled:
            self.lost = source.labels if self.lost is None else join((self.lost, source.labels))

    def _let_go(self, source: Source) -> None:
        self.size -= source.size
        del self._texts[source.key]
        for name in source.fields if source.is_labelled else ():
            self.fields[name] -= 1
            if not self.fields[name]:
                del self.fields[name]


class Reader:
    """The sessions of one principal, the latest used last."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self._dropped: dict[int, Labels] = {}
        """By the hash of its name: the labels of what a session had read that was dropped."""
        self._overflow: Labels | None = None
        """The labels of dropped sessions that are not remembered one by one."""

    def find(self, name: str) -> Session:
        """The session of this name; one that has read nothing is not kept."""
        session = self.sessions.get(name)
        if session is None:
            return Session(self._dropped.get(hash(name), self._overflow))
        self.sessions.move_to_end(name)
        return session

    def keep(self, name: str, session: Session) -> None:
        self.sessions[name] = session
        self._dropped.pop(hash(name), None)
        while len(self.sessions) > MAX_SESSIONS:
            self.drop(next(iter(self.sessions)))

    def drop(self, name: str) -> None:
        """Forget a session, but not that it had read what has labels."""
        if (labels := self.sessions.pop(name).labels) is None:
            return
        if len(self._dropped) >= MAX_DROPPED:
            self._overflow = join((*self._dropped.values(), labels, *((self._overflow,) if self._overflow else ())))
            self._dropped.clear()
        self._dropped[hash(name)] = labels

    def excess(self, most: int) -> list[tuple[Session, Source]]:
        """The oldest texts, as many as are too many."""
        surplus = [(session, source) for session in self.sessions.values() for source in session.excess()]
        size = sum(session.size for session in self.sessions.values()) - sum(source.size for _, source in surplus)
        if size <= most:
            return surplus
        counted = {id(source) for _, source in surplus}
        for session in self.sessions.values():
            for source in session.oldest_texts():
                if size > most and id(source) not in counted:
                    surplus.append((session, source))
                    size -= source.size
        return surplus

    def lose(self, most: int) -> None:
        """Forget the oldest fingerprints, as many as are too many; first those of results that had no label."""
        marks = sum(session.marks for session in self.sessions.values())
        for labelled in (False, True) if marks > most else ():
            for session in self.sessions.values():
                for source in [entry for entry in session.sources if entry.marks and entry.is_labelled is labelled]:
                    if marks <= most:
                        return
                    marks -= source.marks
                    session.lose(source)


_NOBODY = Reader()
"""One that has read nothing."""


class Memory:
    """What the sessions of every principal have read."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    def session(self, caller: Caller) -> Session:
        return self._readers.get(_owner(caller), _NOBODY).find(caller.session)

    async def remember(self, caller: Caller, source: Source) -> None:
        """Add what a session has read; what this makes too much is kept in a shorter form, or as a label."""
        reader = self._readers.setdefault(_owner(caller), Reader())
        session = reader.find(caller.session)
        session.add(source)
        reader.keep(caller.session, session)
        excess = reader.excess(min(MAX_OWN_TEXT, MAX_ALL_TEXT // len(self._readers)))
        if sum(entry.size for _, entry in excess) > _QUICK:
            await asyncio.to_thread(_take_fingerprints, [entry for _, entry in excess])
        for owner, entry in excess:
            owner.fade(entry)
        if excess:
            reader.lose(min(MAX_MARKS, MAX_ALL_MARKS // len(self._readers)))


def _owner(caller: Caller) -> str:
    return caller.principal.id


def join(labels: Sequence[Labels]) -> Labels:
    """The labels of data derived from all of these: joined, never weakened."""
    return Labels(any(label.untrusted for label in labels), any(label.private for label in labels))


def _take_fingerprints(sources: Sequence[Source]) -> None:
    for source in sources:
        source.take_fingerprints()


def _moment(at: float) -> str:
    local = time.localtime(at)
    if time.localtime()[:3] == local[:3]:
        return time.strftime("at %H:%M", local)
    return f"on {local.tm_mday} {time.strftime('%B at %H:%M', local)}"
