"""Whether a call may be made: the rules of `[[policy]]`, and where they say so, a person's yes.

In the stack only where the configuration has rules about the server, or watches where data flows. The person behind
the client is asked by elicitation; where the client cannot ask, the call waits for `wicket approve` and is refused
until it is made again. An approval is for one call of one principal with exactly these arguments, under these rules,
for a while, and is spent by it; "always" makes a rule of it (`trust/always.py`). Nothing that a model can say is one.
"""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.calls.asking import ALWAYS, NO, SESSION, YES, can_ask, choose
from wicket_mcp.codec import pretty
from wicket_mcp.errors import Denied, WicketError
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.store.base import ApprovalStore
from wicket_mcp.store.model import StoredApproval
from wicket_mcp.telemetry.log import cut
from wicket_mcp.trust.always import Always
from wicket_mcp.trust.flow import Finding, Flow, Stored
from wicket_mcp.trust.rules import Call, Decision, Rules

log = logging.getLogger(__name__)

KEEP = 900.0  # seconds for which a question, and a yes to it, are good
ALWAYS_MARK = ", always"
"""Ends the name of who approved a call and all like it: the rule is made when the call comes, with its arguments."""
SESSION_MARK = ", for this session"
"""Ends the name of who approved a call for as long as the client's session lasts."""
MAX_SESSION_APPROVALS = 1000
_SHOWN = 1500  # characters of arguments that a question shows


Origin: TypeAlias = Callable[[str, Principal], Awaitable[tuple[str, JsonObject]]]


class Approvals(msgspec.Struct, frozen=True):
    """What decides, and who remembers what a person decided."""

    rules: Rules
    store: ApprovalStore
    origin: Origin
    """The call that a stored result is of, and its `_meta`."""
    always: Always
    """What somebody said "always" to."""
    flow: Flow | None = None
    sessions: dict[tuple[str, str, str, str], str] = msgspec.field(default_factory=dict[tuple[str, str, str, str], str])
    """What somebody approved for a session: whose, which session, tool and arguments; who approved. It ends with these
    rules, and the oldest ends where there are too many.
    """

    def concern(self, server: str) -> bool:
        return self.flow is not None or self.rules.concern(server)


def approve(approvals: Approvals) -> Layer:
    flow = approvals.flow

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            call = _call(request)
            finding = None
            if flow is not None:
                stored = await _find_references(approvals, request) if request.span.references else ()
                derived = await _find_derived(flow, request, call)
                finding = flow.examine(request, call, stored, derived)
            if finding is not None:
                call = replace(call, labels=finding.labels)
            decision = approvals.rules.decide(call)
            if decision is None and flow is not None and finding is not None:
                decision = flow.decide(finding)
            if decision is not None:
                await _settle(approvals, request, call, decision, finding)
            result = await inner(request)
            if flow is not None:
                flow.observe(request, result.body)
            return result

        return handle

    return layer


def observe(flow: Flow) -> Layer:
    """Remembers what resources and prompts bring into a session; they are read, and decide nothing."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            result = await inner(request)
            flow.observe(request, result.body)
            return result

        return handle

    return layer


async def _find_derived(flow: Flow, request: Request, call: Call) -> Collection[str] | None:
    """The arguments of a script's call that were made of what others wrote; None where that is not known."""
    rerun = request.span.rerun
    return await rerun() if rerun is not None and flow.may_derive(request, call) else None


async def _find_references(approvals: Approvals, request: Request) -> list[Stored]:
    """What the arguments of a call refer to."""
    references: list[Stored] = []
    for argument, handle in request.span.references:
        tool, meta = await approvals.origin(handle, request.principal)
        references.append(Stored(argument, tool, meta))
    return references


def _call(request: Request) -> Call:
    tool = request.tool
    arguments: JsonObject = as_object(request.params.get("arguments"))
    annotations = as_object(tool.definition.get("annotations")) if tool is not None else {}
    name = (tool.own_name or tool.name) if tool is not None else request.name
    return Call(request.server, name, arguments, annotations, request.principal.name, request.principal.profile)


async def _settle(
    approvals: Approvals, request: Request, call: Call, decision: Decision, finding: Finding | None
) -> None:
    """Let the call pass, or raise Denied with what to do."""
    span = request.span
    span.rule = f"{decision.rule}: {decision.action}"
    why = f" {finding.words}" if finding is not None else ""
    if decision.action == "allow":
        return
    if decision.action == "deny":
        raise Denied(f"'{call.key}' was not called: {decision.words} refuses it.{why}", hint=_EXPLAIN)
    if (covered := await approvals.always.find(call)) is not None:
        span.rule += f", {covered}"
        return
    if (by := approvals.sessions.get(_in_session(request, call))) is not None:
        span.rule += f", approved by {by}{SESSION_MARK}"
        return
    question = _question(request, call, decision, why, approvals.rules.version)
    if (approver := await approvals.store.spend(question, time.time())) is not None:
        span.rule += f", approved by {approver}"
        if approver.endswith(ALWAYS_MARK):
            await _keep(approvals.always, call, approver.removesuffix(ALWAYS_MARK))
        elif approver.endswith(SESSION_MARK):
            _keep_for_session(approvals, request, call, approver.removesuffix(SESSION_MARK))
        return
    if not can_ask(request.caller):
        raise await _wait_for_a_person(approvals.store, question, decision, why)
    # The rules that "always" makes are the owner's, so only who may change the gateway can make one.
    choices = (YES, SESSION, ALWAYS, NO) if request.principal.may("admin") else (YES, SESSION, NO)
    answer = await choose(request.caller, question.words, choices)
    if answer == NO:
        span.rule += ", refused by the user"
        raise Denied(f"'{call.key}' was not called: the user refused.", hint="Do not try again unless told to.")
    span.rule += f", approved by {request.principal.name}{'' if answer == YES else f', {answer}'}"
    if answer == ALWAYS:
        await _keep(approvals.always, call, request.principal.name)
    elif answer == SESSION:
        _keep_for_session(approvals, request, call, request.principal.name)


def _in_session(request: Request, call: Call) -> tuple[str, str, str, str]:
    return request.principal.name, request.caller.session, call.key, call.digest


def _keep_for_session(approvals: Approvals, request: Request, call: Call, by: str) -> None:
    """Ask no more about this call, with exactly these arguments, in this session."""
    while len(approvals.sessions) >= MAX_SESSION_APPROVALS:
        del approvals.sessions[next(iter(approvals.sessions))]
    approvals.sessions[_in_session(request, call)] = by


async def _keep(always: Always, call: Call, by: str) -> None:
    """Make a rule of a call that is approved: where that cannot be done it is approved once."""
    try:
        await always.add(call, by)
    except WicketError as problem:
        log.warning("%s is approved once, not always: %s", call.key, problem)


async def _wait_for_a_person(store: ApprovalStore, question: StoredApproval, decision: Decision, why: str) -> Denied:
    """The refusal that names the open question, which is asked once however often the call is tried."""
    same = ("principal", "server", "tool", "arguments_digest", "policy")
    known = [
        pending
        for pending in await store.approvals(question.asked_at)
        if all(getattr(pending, field) == getattr(question, field) for field in same)
    ]
    if not known:
        await store.save_approval(question)
    number = known[0].id if known else question.id
    return Denied(
        f"'{question.server}.{question.tool}' was not called: {decision.words} asks for a person's yes.{why}",
        hint=f"Somebody at the gateway can run: wicket approve {number}; then make the same call again.",
    )


def _question(request: Request, call: Call, decision: Decision, why: str, version: str) -> StoredApproval:
    now = time.time()
    excerpt = cut(pretty(call.arguments), _SHOWN)
    client = f" ({request.caller.client_name})" if request.caller.client_name else ""
    words = f"May {request.principal.name}{client} call {call.key}?{why} ({decision.words} asks.)\nArguments: {excerpt}"
    identity = (request.principal.name, call.server, call.tool, call.digest, version)
    return StoredApproval(f"call-{secrets.token_hex(6)}", *identity, words, now, now + KEEP)


_EXPLAIN = "wicket policy explain shows which rule decides about a call."
