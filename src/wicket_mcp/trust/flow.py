"""Tracks where data comes from and goes: untrusted text must not decide what is sent, paid, written or deleted.

A result is untrusted unless its tool is known to return nothing that others wrote (`sources.py`). A gateway cannot see
what the model thinks, so it matches a session's arguments with what the session has read (`matching.py`). References to
stored results carry exact labels. Through a script labels pass by value: running it again shows what an argument
derives from (`scripts/reruns.py`). If that fails, they pass by script: its call has the labels of everything that it
has read. Keeps recent data in memory; decides only about `flow` itself.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Reversible, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from wicket_mcp.config.model.policy import DataLabel
from wicket_mcp.config.model.policy import Flow as Mode
from wicket_mcp.model import Caller, JsonObject, Tool, as_object
from wicket_mcp.request import Request
from wicket_mcp.trust import matching
from wicket_mcp.trust.effects import effect_of
from wicket_mcp.trust.matching import Text
from wicket_mcp.trust.rules import Call, Decision
from wicket_mcp.trust.sources import Labels, labels_of, trusted_fields

MAX_SESSIONS = 256
MAX_SOURCES = 256  # results of a session that are remembered
MAX_TEXT = 1024**2  # characters of results that are remembered for a session
_NAMED = 3  # arguments whose origin a question names


class Source(msgspec.Struct):
    """One result: its text and where it came from."""

    tool: str
    at: float
    run: str
    labels: Labels
    text: Text
    asked: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])
    """The tools that its prose was searched for, and whether it asks for their effect: a long text is searched once."""
    number: int = 0
    """Its position in the session's reading order, by first reading."""

    @property
    def is_labelled(self) -> bool:
        return self.labels.untrusted or self.labels.private

    @property
    def words(self) -> str:
        kind = f"{self.labels.kind} that {self.tool} gave" if self.labels.kind else f"what {self.tool} gave"
        return f"{kind} {_moment(self.at)}"

    def asks_for(self, tool: str) -> bool:
        if tool not in self.asked:
            self.asked[tool] = matching.asks_for(tool, self.text)
        return self.asked[tool]


class Stored(msgspec.Struct, frozen=True):
    """A stored result that an argument refers to: the argument, and the call that produced the result."""

    argument: str
    tool: str
    body: JsonObject


class Finding(msgspec.Struct, frozen=True):
    """Untrusted or private data that reaches a tool with an effect: whose it is, and how that is known."""

    labels: tuple[DataLabel, ...]
    words: str


class Session:
    """What one session has read recently, the latest last; repeated results are kept once."""

    def __init__(self) -> None:
        self._sources: OrderedDict[tuple[str, str, Text], Source] = OrderedDict()
        self._size = 0
        self._numbers = 0
        self.fields: Counter[str] = Counter()
        """The whole fields of all untrusted results, and in how many results each occurs."""

    @property
    def sources(self) -> Reversible[Source]:
        return self._sources.values()

    @property
    def by_first_reading(self) -> list[Source]:
        """What came first is the origin; a later result may only repeat it."""
        return sorted(self.sources, key=lambda source: source.number)

    def trusted_before(self, source: Source) -> list[Text]:
        """What the session had read before this source and no one else can have written."""
        return [entry.text for entry in self.sources if not entry.labels.untrusted and entry.number < source.number]

    def add(self, source: Source) -> None:
        key = source.tool, source.run, source.text
        if (known := self._sources.get(key)) is not None:
            known.at = source.at
            if not known.is_labelled and source.is_labelled:
                self.fields.update(source.text.fields)
            known.labels = replace(_join((known, source)), kind=known.labels.kind)
            self._sources.move_to_end(key)
            return
        self._numbers += 1
        source.number = self._numbers
        self._sources[key] = source
        self._size += len(source.text)
        if source.is_labelled:
            self.fields.update(source.text.fields)
        while len(self._sources) > 1 and (self._size > MAX_TEXT or len(self._sources) > MAX_SOURCES):
            self._drop(self._sources.popitem(last=False)[1])

    def _drop(self, source: Source) -> None:
        self._size -= len(source.text)
        for name in source.text.fields if source.is_labelled else ():
            self.fields[name] -= 1
            if not self.fields[name]:
                del self.fields[name]


class Memory:
    """What every session has read recently; outlives a configuration."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def session(self, caller: Caller) -> Session:
        key = (caller.principal.name, caller.session)
        session = self._sessions.setdefault(key, Session())
        self._sessions.move_to_end(key)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session


class Flow:
    """The flow rules of one configuration, over the remembered results."""

    def __init__(self, mode: Mode, trusted: Sequence[str], memory: Memory) -> None:
        self._mode: Mode = mode
        self._trusted = tuple(trusted)
        self._memory = memory

    def decide(self, finding: Finding) -> Decision | None:
        """The decision of `flow` itself, if no rule has decided."""
        if self._mode == "off" or "untrusted" not in finding.labels:
            return None
        action: Literal["ask", "deny"] = self._mode
        return Decision(action, "flow")

    def may_derive(self, request: Request, call: Call) -> bool:
        """Whether the origin of a script's arguments matters: it has read something, and the call has an effect."""
        session = self._memory.session(request.caller)
        return effect_of(call.tool, call.annotations) is not None and bool(_read_by(request.span.run, session.sources))

    def examine(
        self,
        request: Request,
        call: Call,
        stored: Sequence[Stored] = (),
        derived: Collection[str] | None = None,
    ) -> Finding | None:
        """Whether untrusted data reaches a tool with an effect.

        `stored` is what its arguments refer to; `derived` are the arguments that a script is known to have derived from
        such data.
        """
        traces = list(self._traces(request, call, self._memory.session(request.caller), stored, derived))
        if not traces:
            return None
        labels: list[DataLabel] = []
        if any(labels_.untrusted for _, labels_ in traces):
            labels.append("untrusted")
        if any(labels_.private for _, labels_ in traces):
            labels.append("private")
        words = "; ".join(dict.fromkeys(words for words, _ in traces[:_NAMED]))
        return Finding(tuple(labels), f"{words[:1].upper()}{words[1:]}.")

    def _traces(
        self,
        request: Request,
        call: Call,
        session: Session,
        stored: Sequence[Stored],
        derived: Collection[str] | None,
    ) -> Iterator[tuple[str, Labels]]:
        """How untrusted data reaches the call, in words, with its labels."""
        sources = session.sources
        if effect_of(call.tool, call.annotations) is None:
            for name, value in call.arguments.items():
                if matching.is_address(value):  # what only reads still sends a request to an address
                    yield from _origin(name, value, session, (), None)
            return
        referred = {reference.argument for reference in stored}
        for reference in stored:
            labels = self._labels(_tool(reference.tool), reference.body)
            if labels.untrusted or labels.private:
                yield f"'{reference.argument}' is from a stored result of {reference.tool}", labels
        reading = _read_by(request.span.run, sources)
        if reading and derived is None:
            yield f"the script had read {reading[0].words}, which may have decided about this call", _join(reading)
        for name, value in call.arguments.items():
            if name not in referred:
                yield from _origin(name, value, session, reading, derived)
        asking = next(
            (source for source in reversed(sources) if source.labels.untrusted and source.asks_for(call.tool)), None
        )
        if asking is not None:
            yield f"{asking.words} asks for it", Labels(untrusted=True, private=False)

    def read(self, request: Request, body: JsonObject) -> Text:
        """The text that a result brings into the session. Pure: a large one is read in a thread."""
        text = matching.read(matching.value_of(body), self._trusted_fields(_tool_of(request)))
        is_error = bool(body.get("isError"))
        return matching.drop_echoes(text, as_object(request.params.get("arguments"))) if is_error else text

    def observe(self, request: Request, body: JsonObject, text: Text) -> None:
        """Remember what a result brought into the session."""
        tool = _tool_of(request)
        labels = self._labels(tool, body)
        request.span.labels = labels.ifc
        if labels.untrusted or labels.private:
            request.span.concealable = self._trusted_fields(tool)
        self._remember(request.caller, request.span.run, tool, labels, text)

    def observe_stored(self, caller: Caller, run: str, tool: str, body: JsonObject, value: Any) -> None:
        """Remember what was read from a stored result, which another session may have stored."""
        known = _tool(tool)
        text = matching.read(value, self._trusted_fields(known))
        self._remember(caller, run, known, self._labels(known, body), text)

    def labels_of_run(self, caller: Caller, run: str) -> Labels:
        """The labels of everything that a script has read: those of its own result."""
        return _join([source for source in self._memory.session(caller).sources if source.run == run])

    def _labels(self, tool: Tool, body: JsonObject) -> Labels:
        return labels_of(tool, body, self._trusted)

    def _trusted_fields(self, tool: Tool) -> frozenset[str]:
        return trusted_fields(tool.own_key, self._trusted)

    def _remember(self, caller: Caller, run: str, tool: Tool, labels: Labels, text: Text) -> None:
        if len(text):
            self._memory.session(caller).add(Source(tool.own_key, time.time(), run, labels, text))


def _origin(
    name: str, value: Any, session: Session, reading: Sequence[Source], derived: Collection[str] | None
) -> Iterator[tuple[str, Labels]]:
    """The origin of an argument, if it is untrusted; `reading` and `derived`: what its script has read and derived."""
    is_independent = derived is not None and name not in derived
    run = reading[0].run if reading else ""
    # An argument that does not depend on the script's reading may still come from what the model read before it wrote
    # the script.
    for source in session.by_first_reading:
        if is_independent and run and source.run == run:
            continue
        if not matching.comes_from(name, value, source.text, session.fields):
            continue
        labels = source.labels
        trusted = session.trusted_before(source)
        if labels.untrusted and not matching.comes_from(name, value, source.text, session.fields, trusted):
            labels = replace(labels, untrusted=False)  # it was known before anyone else could have written it
        if labels.untrusted or labels.private:
            yield f"'{name}' came from {source.words}", labels
            return
    if reading and derived is not None and name in derived:
        yield f"'{name}' was computed by the script, which had read {reading[0].words}", _join(reading)


def _read_by(run: str, sources: Reversible[Source]) -> list[Source]:
    """The untrusted texts that a script has read, the latest first."""
    if not run:
        return []
    labelled = (source for source in reversed(sources) if source.is_labelled)
    return [source for source in labelled if source.run == run and source.text.prose]


def _join(sources: Sequence[Source]) -> Labels:
    """The labels of data derived from all of these: joined, never weakened."""
    labels = [source.labels for source in sources]
    return Labels(any(label.untrusted for label in labels), any(label.private for label in labels))


def _tool_of(request: Request) -> Tool:
    return request.tool or Tool(request.span.server or request.server, request.name, {})


def _tool(key: str) -> Tool:
    server, _, name = key.partition(".")
    return Tool(server, name, {})


def _moment(at: float) -> str:
    local = time.localtime(at)
    if time.localtime()[:3] == local[:3]:
        return time.strftime("at %H:%M", local)
    return f"on {local.tm_mday} {time.strftime('%B at %H:%M', local)}"
