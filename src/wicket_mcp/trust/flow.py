"""Tracks where data comes from and goes: untrusted text must not decide what is sent, paid, written or deleted.

A result is untrusted unless its tool is known to return nothing that others wrote (`sources.py`). A gateway cannot see
what the model thinks, so it matches a session's arguments with what the session has read (`matching.py`). References to
stored results carry exact labels. Through a script labels pass by value: running it again shows what an argument
derives from (`scripts/reruns.py`). If that fails, they pass by script: its call has the labels of everything that it
has read. Keeps recent data in memory; decides only about `flow` itself.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.codec import weighs_over
from wicket_mcp.config.model.policy import DataLabel
from wicket_mcp.config.model.policy import Flow as Mode
from wicket_mcp.model import Caller, JsonObject, Tool, as_object
from wicket_mcp.request import Request
from wicket_mcp.telemetry.log import enclose, quote_name
from wicket_mcp.trust import matching
from wicket_mcp.trust.comparison import Comparison, read_by
from wicket_mcp.trust.effects import effect_of
from wicket_mcp.trust.matching import Text
from wicket_mcp.trust.memory import Memory, Source, join
from wicket_mcp.trust.rules import Call, Decision, version_of
from wicket_mcp.trust.sources import Labels, labels_of, trusted_fields

_NAMED = 3  # arguments whose origin a question names
_LARGE = 32_768  # characters of a session or of a call's arguments that are not compared on the event loop


class Stored(msgspec.Struct, frozen=True):
    """A stored result that an argument refers to: the argument, and the call that produced the result."""

    argument: str
    tool: str
    body: JsonObject


class Finding(msgspec.Struct, frozen=True):
    """Untrusted or private data that reaches a tool with an effect: whose it is, and how that is known."""

    labels: tuple[DataLabel, ...]
    words: str


class Flow:
    """The flow rules of one configuration, over the remembered results."""

    def __init__(self, mode: Mode, trusted: Sequence[str], memory: Memory) -> None:
        self._mode: Mode = mode
        self._trusted = tuple(trusted)
        self._memory = memory
        self._version = version_of(["flow", mode, *trusted])

    def decide(self, finding: Finding) -> Decision | None:
        """The decision of `flow` itself, if no rule has decided."""
        if self._mode == "off" or "untrusted" not in finding.labels:
            return None
        action: Literal["ask", "deny"] = self._mode
        return Decision(action, "flow", version=self._version)

    def may_derive(self, request: Request, call: Call) -> bool:
        """Whether the origin of a script's arguments matters: it has read something, and the call has an effect."""
        if effect_of(call.tool, call.annotations) is None:
            return False
        return any(read_by(request.span.run, tuple(self._memory.session(request.caller).sources)))

    async def examine(
        self,
        request: Request,
        call: Call,
        stored: Sequence[Stored] = (),
        derived: Collection[str] | None = None,
    ) -> Finding | None:
        """Whether untrusted data reaches a tool with an effect, or private data a server that it is not from.

        `stored` is what its arguments refer to; `derived` are the arguments that a script is known to have derived from
        such data.
        """
        session = self._memory.session(request.caller)
        comparison = Comparison(session, call.arguments)
        if max(session.size, session.marks) > _LARGE or weighs_over(call.arguments, _LARGE):
            return await asyncio.to_thread(self._find, request.span.run, call, comparison, stored, derived)
        return self._find(request.span.run, call, comparison, stored, derived)

    def _find(
        self,
        run: str,
        call: Call,
        comparison: Comparison,
        stored: Sequence[Stored],
        derived: Collection[str] | None,
    ) -> Finding | None:
        reads = effect_of(call.tool, call.annotations) is None
        traces = list(
            _reading_traces(run, call, comparison, self._label(stored))
            if reads
            else _traces(run, call, comparison, self._label(stored), derived)
        )
        if not traces:
            return None
        labels: list[DataLabel] = []
        if any(labels_.untrusted for _, labels_ in traces):
            labels.append("untrusted")
        if any(labels_.private for _, labels_ in traces):
            labels.append("private")
        words = "; ".join(dict.fromkeys(words for words, _ in traces[:_NAMED]))
        return Finding(tuple(labels), f"{words[:1].upper()}{words[1:]}.")

    def _label(self, stored: Sequence[Stored]) -> list[tuple[Stored, Labels]]:
        return [(reference, self._labels(_tool(reference.tool), reference.body)) for reference in stored]

    async def observe(self, request: Request, body: JsonObject) -> None:
        """Remember what a result brought into the session."""
        tool = _tool_of(request)
        labels = self._labels(tool, body)
        request.span.labels = labels.ifc
        if labels.untrusted or labels.private:
            request.span.concealable = self._trusted_fields(tool)
        if weighs_over(body, _LARGE):
            text = await asyncio.to_thread(self._read, request, body)
        else:
            text = self._read(request, body)
        await self._remember(request.caller, request.span.run, tool, labels, text)

    def _read(self, request: Request, body: JsonObject) -> Text:
        text = matching.read(matching.value_of(body), self._trusted_fields(_tool_of(request)))
        is_error = bool(body.get("isError"))
        return matching.drop_echoes(text, as_object(request.params.get("arguments"))) if is_error else text

    async def observe_stored(self, caller: Caller, run: str, tool: str, body: JsonObject, value: Any) -> None:
        """Remember what was read from a stored result, which another session may have stored."""
        known = _tool(tool)
        text = await asyncio.to_thread(matching.read, value, self._trusted_fields(known))
        await self._remember(caller, run, known, self._labels(known, body), text)

    def labels_of_run(self, caller: Caller, run: str) -> Labels:
        """The labels of everything that a script has read: those of its own result."""
        session = self._memory.session(caller)
        labels = [source.labels for source in session.sources if source.run == run]
        return join(labels if session.lost is None else [*labels, session.lost])

    def _labels(self, tool: Tool, body: JsonObject) -> Labels:
        return labels_of(tool, body, self._trusted)

    def _trusted_fields(self, tool: Tool) -> frozenset[str]:
        return trusted_fields(tool.own_key, self._trusted)

    async def _remember(self, caller: Caller, run: str, tool: Tool, labels: Labels, text: Text) -> None:
        if len(text):
            await self._memory.remember(caller, Source.of(tool.own_key, run, labels, text))


Trace: TypeAlias = tuple[str, Labels]
"""How data reaches a call, in words, with its labels."""


def _traces(
    run: str,
    call: Call,
    comparison: Comparison,
    stored: Sequence[tuple[Stored, Labels]],
    derived: Collection[str] | None,
) -> Iterator[Trace]:
    """How labelled data reaches a call that has an effect."""
    for reference, labels in stored:
        if labels.untrusted or labels.private:
            yield f"{enclose(reference.argument)} is from a stored result of {quote_name(reference.tool)}", labels
    reading = comparison.read_by(run)
    if reading and derived is None:
        words = f"the script had read {reading[0].words}, which may have decided about this call"
        yield words, join([source.labels for source in reading])
    arguments = call.arguments.keys() - {reference.argument for reference, _ in stored}
    for name in [name for name in call.arguments if name in arguments]:
        yield from _origin(name, comparison, reading, derived)
        yield from _private_origin(name, call.server, comparison)
    for source in reversed(comparison.sources):
        if source.labels.untrusted and source.asks_for(call.tool):
            yield f"{source.words} asks for it", Labels(untrusted=True, private=False)
            break
    yield from _doubt(comparison)


def _reading_traces(
    run: str, call: Call, comparison: Comparison, stored: Sequence[tuple[Stored, Labels]]
) -> Iterator[Trace]:
    """How labelled data reaches a call that only reads: it still sends something to a server, or to an address."""
    for reference, labels in stored:
        if labels.private and _tool(reference.tool).server != call.server:
            words = f"{enclose(reference.argument)} is from a stored result of {quote_name(reference.tool)}"
            yield words, Labels(untrusted=False, private=True)
    has_address = False
    for name, value in call.arguments.items():
        if matching.is_address(value):
            has_address = True
            yield from _origin(name, comparison, (), None)
        yield from _private_origin(name, call.server, comparison)
    for words, labels in _doubt(comparison) if call.arguments else ():
        if labels.private or has_address:
            yield words, Labels(labels.untrusted and has_address, labels.private)


def _doubt(comparison: Comparison) -> Iterator[Trace]:
    """What cannot be told: whether a call has something of what was read long ago, or any of its many values."""
    if comparison.lost is not None:
        origin = "others wrote" if comparison.lost.untrusted else "is private"
        yield f"the session has read more than is remembered, and part of it {origin}", comparison.lost
    labelled = [source for source in comparison.sources if source.is_labelled]
    if labelled and comparison.has_too_many:
        words = f"its arguments have more values than are compared with {labelled[-1].words}"
        yield words, join([source.labels for source in labelled])


def _origin(
    name: str, comparison: Comparison, reading: Sequence[Source], derived: Collection[str] | None
) -> Iterator[Trace]:
    """The origin of an argument, if it is untrusted; `reading` and `derived`: what its script has read and derived."""
    is_independent = derived is not None and name not in derived
    run = reading[0].run if reading else ""
    # An argument that does not depend on the script's reading may still come from what the model read before it wrote
    # the script.
    for source in comparison.by_first_reading:
        if is_independent and source.run == run:
            continue
        if not source.is_labelled or not (copies := comparison.copies(name, source)):
            continue
        labels = source.labels
        if labels.untrusted and comparison.trusted_before(source, copies):
            labels = replace(labels, untrusted=False)  # it was known before anyone else could have written it
        if labels.untrusted or labels.private:
            yield f"{enclose(name)} came from {source.words}", labels
            return
    if reading and derived is not None and name in derived:
        words = f"{enclose(name)} was computed by the script, which had read {reading[0].words}"
        yield words, join([source.labels for source in reading])


def _private_origin(name: str, server: str, comparison: Comparison) -> Iterator[Trace]:
    """The origin of an argument, if it is private to another server than the one that is called."""
    for source in comparison.by_first_reading:
        if source.labels.private and source.server != server and comparison.copies(name, source, whole=True):
            yield f"{enclose(name)} came from {source.words}", Labels(untrusted=False, private=True)
            return


def _tool_of(request: Request) -> Tool:
    return request.tool or Tool(request.span.server or request.server, request.name, {})


def _tool(key: str) -> Tool:
    server, _, name = key.partition(".")
    return Tool(server, name, {})
