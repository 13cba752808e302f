"""Where data comes from and where it goes: what others wrote must not decide what is sent, paid, written or deleted.

A result is untrusted unless its tool is known to return nothing that others wrote. A gateway does not see the model's
thoughts, so a session is followed by matching: an argument of at least eight characters that stands inside the prose of
an untrusted result, and is not a whole field of one (an id, an address in its own column), came from there. A call that
such prose asks for (it says "send …" and the tool sends) counts too, and so does a script that has read such prose:
what code computes cannot be matched. Knows what was seen lately, in memory; decides nothing but `flow` itself.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from wicket_mcp.codec import decode
from wicket_mcp.config.model.policy import DataLabel
from wicket_mcp.config.model.policy import Flow as Mode
from wicket_mcp.model import JsonObject, Tool, as_list, as_object, as_text
from wicket_mcp.request import Request
from wicket_mcp.trust.effects import VERBS, effect_of
from wicket_mcp.trust.rules import Call, Decision

SHORTEST = 8  # characters of an argument that can be matched
LONGEST = 400  # characters of one that is matched as a whole; of a longer one, what looks like an address or a number
MAX_SESSIONS = 256
MAX_TEXT = 1024**2  # characters of results that are remembered for a session
META_IFC = "ifc"
META_TRUST = "io.modelcontextprotocol/trust-annotations"

_COMPUTES = re.compile(r"time|calculat|convert|sequential_?thinking|random|uuid|math", re.IGNORECASE)
_PRIVATE = re.compile(r"e?mail|inbox|file|message|calendar|contact|drive|document|note|account|balance", re.IGNORECASE)
_TOKEN = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|(?:https?://|www\.)\S+|\b(?=\w*\d)\w{8,}")
_PROSE = re.compile(r"\S\s+\S+\s+\S+\s+\S")
_LEAD = (
    r"(?:^|[.!?:;,\n>\"'(*-]|\b(?:please|must|should|to|and|then|now|you|can|just|first|kindly|me)\b)\s*(?:\w+ly\s+)?"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One untrusted or private result: the prose in it, its whole fields, and where it came from."""

    tool: str
    at: float
    run: str
    untrusted: bool
    private: bool
    prose: str
    fields: frozenset[str]

    @property
    def words(self) -> str:
        return f"{self.tool} at {time.strftime('%H:%M', time.localtime(self.at))}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Data that reaches a tool that does something: whose, and how that is known."""

    labels: tuple[DataLabel, ...]
    words: str


@dataclass(slots=True)
class Session:
    """What one session has read lately."""

    sources: list[Source] = field(default_factory=list[Source])

    def add(self, source: Source) -> None:
        self.sources.append(source)
        total = sum(len(each.prose) for each in self.sources)
        while total > MAX_TEXT and len(self.sources) > 1:
            total -= len(self.sources.pop(0).prose)


class Memory:
    """What every session has read lately; outlives a configuration."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def session(self, request: Request) -> Session:
        key = (request.principal.name, request.caller.session)
        session = self._sessions.setdefault(key, Session())
        self._sessions.move_to_end(key)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session


class Flow:
    """The rules about flow of one configuration, over what was seen."""

    def __init__(self, mode: Mode, trusted: Sequence[str], memory: Memory) -> None:
        self._mode: Mode = mode
        self._trusted = tuple(trusted)
        self._memory = memory

    def decide(self, finding: Finding) -> Decision | None:
        """What `flow` itself says, where no rule has decided."""
        if self._mode == "off" or "untrusted" not in finding.labels:
            return None
        action: Literal["ask", "deny"] = self._mode
        return Decision(action, "flow")

    def examine(self, request: Request, call: Call) -> Finding | None:
        """Whether data of others reaches a tool that does something."""
        effect = effect_of(call.tool, call.annotations)
        sources = self._memory.session(request).sources
        if effect is None or not sources:
            return None
        run = request.span.run
        for source in sources:
            if run and source.run == run and source.untrusted and source.prose:
                return Finding(("untrusted",), f"The script has read what others wrote ({source.words}).")
        traces = list(_traces(call.arguments, sources))
        asked = _asking(call.tool, [each for each in sources if each.untrusted])
        if not traces and asked is None:
            return None
        labels: list[DataLabel] = []
        if asked is not None or any(source.untrusted for _, source in traces):
            labels.append("untrusted")
        if any(source.private for _, source in traces):
            labels.append("private")
        told = [f"'{name}' came from {source.words}" for name, source in traces[:3]]
        if asked is not None:
            told.append(f"the text of {asked.words} asks for it")
        words = "; ".join(told)
        return Finding(tuple(labels), f"{words[:1].upper()}{words[1:]}.")

    def observe(self, request: Request, body: JsonObject) -> None:
        """Remember what a result brought into the session."""
        tool = request.tool
        if tool is None or body.get("isError"):
            return
        untrusted, private = self._labels(tool, as_object(body.get("_meta")), body)
        if not untrusted and not private:
            return
        prose: list[str] = []
        fields: set[str] = set()
        for text in _leaves(_value(body)):
            if _PROSE.search(text) or len(text) > LONGEST:
                prose.append(text.casefold())
            elif len(text) >= SHORTEST:
                fields.add(text.casefold())
        if prose or fields:
            source = Source(
                tool.key, time.time(), request.span.run, untrusted, private, "\n".join(prose), frozenset(fields)
            )
            self._memory.session(request).add(source)

    def _labels(self, tool: Tool, meta: JsonObject, body: JsonObject) -> tuple[bool, bool]:
        """Whether a result is untrusted, and whether it is private: what it says itself comes before the table."""
        annotations = as_object(tool.definition.get("annotations"))
        computed = annotations.get("openWorldHint") is False or _COMPUTES.search(tool.name) is not None
        untrusted = not computed and not any(fnmatchcase(tool.key, pattern) for pattern in self._trusted)
        private = _PRIVATE.search(tool.name) is not None
        ifc = as_object(meta.get(META_IFC))
        if ifc.get("integrity") in ("trusted", "untrusted"):
            untrusted = untrusted if ifc["integrity"] == "trusted" and not computed else ifc["integrity"] == "untrusted"
        if ifc.get("confidentiality") in ("public", "private"):
            private = ifc["confidentiality"] == "private"
        hints = {**as_object(meta.get(META_TRUST)), **as_object(body.get("annotations"))}
        untrusted = untrusted or hints.get("maliciousActivityHint") is True or hints.get("openWorldHint") is True
        return untrusted, private or hints.get("privateHint") is True


def _traces(arguments: JsonObject, sources: Sequence[Source]) -> Iterator[tuple[str, Source]]:
    """The arguments that stand in the prose of a source, and are not a whole field of any."""
    known = frozenset(text for source in sources for text in source.fields)
    for name, value in arguments.items():
        source = next((found for text in _leaves(value) if (found := _origin(text, known, sources))), None)
        if source is not None:
            yield name, source


def _origin(argument: str, known: frozenset[str], sources: Sequence[Source]) -> Source | None:
    folded = argument.casefold().strip()
    candidates = [folded] if SHORTEST <= len(folded) <= LONGEST else []
    candidates += [token for token in _TOKEN.findall(folded) if len(token) >= SHORTEST]
    for candidate in candidates:
        if candidate in known:
            continue
        for source in reversed(sources):
            if candidate in source.prose:
                return source
    return None


def _asking(tool: str, sources: Sequence[Source]) -> Source | None:
    """The source whose prose asks for what the tool does."""
    pattern = _requests(tool)
    return next((source for source in reversed(sources) if pattern.search(source.prose)), None)


_patterns: dict[str, re.Pattern[str]] = {}


def _requests(tool: str) -> re.Pattern[str]:
    """Sentences that ask for what a tool of this name does: its own verb, or one of the same effect."""
    pattern = _patterns.get(tool)
    if pattern is None:
        words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", tool).lower())
        effect = effect_of(tool, {}) or "writes"
        verbs = sorted((set(words) & set().union(*VERBS.values())) | (VERBS[effect] if effect != "writes" else set()))
        nouns = [word for word in words if word not in verbs and len(word) > 2]
        near = rf"[^.\n]{{0,80}}\b(?:{'|'.join(map(re.escape, nouns))})" if nouns and effect == "writes" else r"\b"
        pattern = _patterns[tool] = re.compile(
            rf"{_LEAD}(?:{'|'.join(verbs) or re.escape(tool)})\b{near}", re.MULTILINE
        )
        if len(_patterns) > 4096:
            _patterns.clear()
    return pattern


def _value(body: JsonObject) -> Any:
    """What a result says, as data: its structured content, or its text, parsed where it is JSON."""
    if "structuredContent" in body:
        return body["structuredContent"]
    return [_parsed(as_text(as_object(block).get("text"))) for block in as_list(body.get("content"))]


def _parsed(text: str) -> Any:
    if text[:1] not in "[{":
        return text
    try:
        return decode(text)
    except ValueError:
        return text


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in as_object(value).values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in as_list(value):
            yield from _leaves(item)
