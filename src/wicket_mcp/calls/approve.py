"""Whether a call may be made: checks the rules of `[[policy]]` and, if they require it, asks a person.

Part of the stack only if the configuration has rules about the server, or tracks data flow. The client's user is asked
by elicitation. If the client cannot ask, the call is refused until it is approved with `wicket approve` and made again.
An approval covers one call of one principal with exactly these arguments, under these rules, for a limited time, and is
used up by that call; "always" turns it into a rule (`trust/always.py`). A model's own words never count as an approval.
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.calls.asking import ALWAYS, NO, SESSION, YES, can_ask, choose, show
from wicket_mcp.codec import canonical, pretty
from wicket_mcp.errors import Denied, Refused, UpstreamError, WicketError
from wicket_mcp.model import JsonObject, Principal, as_list, as_object
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.store.base import ApprovalStore
from wicket_mcp.store.model import StoredApproval
from wicket_mcp.telemetry.log import escape
from wicket_mcp.telemetry.redact import mask_strings
from wicket_mcp.trust.always import Always
from wicket_mcp.trust.flow import Finding, Flow, Stored
from wicket_mcp.trust.rules import Call, Decision, Rules

log = logging.getLogger(__name__)

KEEP = 900.0  # seconds for which a question and its approval are valid
ALWAYS_MARK = ", always"
"""Suffix of the approver's name for "always": the rule is created when the call comes, with its arguments."""
SESSION_MARK = ", for this session"
"""Suffix of the approver's name for an approval that lasts as long as the client's session."""
MAX_SESSION_APPROVALS = 1000
_SHOWN = 3000  # characters of arguments shown in a question to a client
_SHOWN_OF_EACH = 300  # and of each text in them, so that none pushes the others out of sight
_ARGUMENTS = "\nArguments: "
_STORED = 100_000  # and to a person at the gateway, who must see exactly what is called


Origin: TypeAlias = Callable[[str, Principal], Awaitable[tuple[str, JsonObject]]]


class Approvals(msgspec.Struct, frozen=True):
    """The rules, and the memory of a person's decisions."""

    rules: Rules
    store: ApprovalStore
    origin: Origin
    """The call that produced a stored result, and the result."""
    always: Always
    """The approvals given with "always"."""
    flow: Flow | None = None
    sessions: dict[tuple[str, str, str, str], str] = msgspec.field(default_factory=dict[tuple[str, str, str, str], str])
    """Approvals for a session: principal, session, tool and arguments, to the approver. They end with these rules, and
    the oldest is dropped if there are too many.
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
                finding = await flow.examine(request, call, stored, derived)
            if finding is not None:
                call = replace(call, labels=finding.labels)
            decision = approvals.rules.decide(call)
            if decision is None and flow is not None and finding is not None:
                decision = flow.decide(finding)
            once = None if decision is None else await _settle(approvals, request, call, decision, finding)
            result = await inner(request) if flow is None else await _follow(flow, request, inner)
            if once is not None and result.body.get("resultType") == "input_required":
                await _keep_for_next_step(approvals.store, once, result.body)
            return result

        return handle

    return layer


def observe(flow: Flow) -> Layer:
    """Record what resources and prompts bring into a session; reading them needs no decision."""

    def layer(inner: Handler) -> Handler:
        def handle(request: Request) -> Awaitable[Result]:
            return _follow(flow, request, inner)

        return handle

    return layer


async def _follow(flow: Flow, request: Request, inner: Handler) -> Result:
    """Make the request, and remember what its answer or its error brings into the session."""
    try:
        result = await inner(request)
    except UpstreamError as problem:
        error: JsonObject = {"isError": True, "content": [str(problem)]}
        if isinstance(problem, Refused):
            error["structuredContent"] = problem.error.get("data")
        await flow.observe(request, error)
        raise
    body = result.body
    is_question = body.get("resultType") == "input_required"  # for the user
    if not is_question and not request.method.endswith("/list"):  # definitions are pinned and linted
        await flow.observe(request, body)
    return result


async def _find_derived(flow: Flow, request: Request, call: Call) -> Collection[str] | None:
    """The arguments of a script's call that derive from untrusted data; None if that is unknown."""
    rerun = request.span.rerun
    return await rerun() if rerun is not None and flow.may_derive(request, call) else None


async def _find_references(approvals: Approvals, request: Request) -> list[Stored]:
    """The stored results that a call's arguments refer to."""
    references: list[Stored] = []
    for argument, handle in request.span.references:
        tool, body = await approvals.origin(handle, request.principal)
        references.append(Stored(argument, tool, body))
    return references


def _call(request: Request) -> Call:
    tool = request.tool
    arguments: JsonObject = as_object(request.params.get("arguments"))
    annotations = as_object(tool.definition.get("annotations")) if tool is not None else {}
    name = (tool.own_name or tool.name) if tool is not None else request.name
    return Call(request.server, name, arguments, annotations, request.principal.id, request.principal.profile)


async def _settle(
    approvals: Approvals, request: Request, call: Call, decision: Decision, finding: Finding | None
) -> StoredApproval | None:
    """Let the call pass, or raise Denied with what to do.

    Returns the approval of a person who was asked, and would be asked about the same call again.
    """
    span = request.span
    span.rule = f"{decision.rule}: {decision.action}"
    why = f" {finding.words}" if finding is not None else ""
    if decision.action == "allow":
        return None
    if decision.action == "deny":
        raise Denied(f"'{call.key}' was not called: {decision.words} refuses it.{why}", hint=_EXPLAIN)
    if (covered := await approvals.always.find(call)) is not None:
        span.rule += f", {covered}"
        return None
    if (by := approvals.sessions.get(_in_session(request, call))) is not None:
        span.rule += f", approved by {by}{SESSION_MARK}"
        return None
    question = _question(request, call, decision, why, approvals.rules.version)
    if (approver := await _spend(approvals.store, request, question)) is not None:
        span.rule += f", approved by {approver}"
        if approver.endswith(ALWAYS_MARK):
            await _keep(approvals.always, call, approver.removesuffix(ALWAYS_MARK))
        elif approver.endswith(SESSION_MARK):
            _keep_for_session(approvals, request, call, approver.removesuffix(SESSION_MARK))
        return replace(question, approved_by=approver)
    if not can_ask(request.caller):
        raise await _wait_for_a_person(approvals.store, question, decision, why, in_script=bool(span.run))
    # An "always" rule belongs to the owner, so only administrators may create one.
    choices = (YES, SESSION, ALWAYS, NO) if request.principal.may("admin") else (YES, SESSION, NO)
    head = question.words.split(_ARGUMENTS, 1)[0]
    arguments = show(escape(pretty(_shorten(mask_strings(call.arguments)))), _SHOWN)
    answer = await choose(request.caller, f"{head}{_ARGUMENTS}{arguments}", choices)
    if answer == NO:
        span.rule += ", refused by the user"
        raise Denied(f"'{call.key}' was not called: the user refused.", hint="Do not try again unless told to.")
    span.rule += f", approved by {request.principal.name}{'' if answer == YES else f', {answer}'}"
    if answer == ALWAYS:
        await _keep(approvals.always, call, request.principal.name)
    elif answer == SESSION:
        _keep_for_session(approvals, request, call, request.principal.name)
    return replace(question, approved_by=request.principal.name)


async def _spend(store: ApprovalStore, request: Request, question: StoredApproval) -> str | None:
    """Use up an approval of this call, or of this further step of a call; returns the approver."""
    if request.resume and (approver := await store.spend(_next_step(question, request.resume), time.time())):
        return approver
    return await store.spend(question, time.time())


async def _keep_for_next_step(store: ApprovalStore, once: StoredApproval, body: JsonObject) -> None:
    """A server asks its caller for more before it acts. The same call with the answers needs no second approval."""
    approver = once.approved_by.removesuffix(ALWAYS_MARK).removesuffix(SESSION_MARK)
    await store.save_approval(replace(_next_step(once, body), approved_by=approver))


def _next_step(question: StoredApproval, states: Mapping[str, Any]) -> StoredApproval:
    """The same question about the step of a call that has this `requestState`."""
    step = canonical([question.arguments_digest, states.get("requestState")])
    return replace(question, arguments_digest=hashlib.sha256(step).hexdigest())


def _in_session(request: Request, call: Call) -> tuple[str, str, str, str]:
    return request.principal.id, request.caller.session, call.key, call.digest


def _keep_for_session(approvals: Approvals, request: Request, call: Call, by: str) -> None:
    """Stop asking about this call, with exactly these arguments, in this session."""
    while len(approvals.sessions) >= MAX_SESSION_APPROVALS:
        del approvals.sessions[next(iter(approvals.sessions))]
    approvals.sessions[_in_session(request, call)] = by


async def _keep(always: Always, call: Call, by: str) -> None:
    """Turn an approved call into a rule; if that fails, the call is approved once."""
    try:
        await always.add(call, by)
    except WicketError as problem:
        log.warning("%s is approved once, not always: %s", call.key, problem)


async def _wait_for_a_person(
    store: ApprovalStore, question: StoredApproval, decision: Decision, why: str, *, in_script: bool
) -> Denied:
    """The refusal that names the open question, which is stored once however often the call is tried."""
    same = ("principal", "server", "tool", "arguments_digest", "policy")
    known = [
        pending
        for pending in await store.approvals(question.asked_at)
        if all(getattr(pending, field) == getattr(question, field) for field in same)
    ]
    if not known:
        await store.save_approval(question)
    number = known[0].id if known else question.id
    again = "run the script again (its earlier calls are made again)" if in_script else "make the same call again"
    return Denied(
        f"'{question.server}.{question.tool}' was not called: {decision.words} requires a person's approval.{why}",
        hint=f"Once somebody at the gateway has approved it, {again}. To approve it: wicket approve {number}",
    )


def _shorten(value: Any) -> Any:
    """The value with long texts cut."""
    if isinstance(value, str):
        hidden = len(value) - _SHOWN_OF_EACH
        return value if hidden <= 0 else f"{value[:_SHOWN_OF_EACH]}… ({hidden:,} more characters)"
    if isinstance(value, list):
        return [_shorten(item) for item in as_list(value)]
    return {key: _shorten(item) for key, item in as_object(value).items()} if isinstance(value, dict) else value


def _question(request: Request, call: Call, decision: Decision, why: str, version: str) -> StoredApproval:
    now = time.time()
    exact = show(escape(pretty(mask_strings(call.arguments))), _STORED)
    client = f" ({request.caller.client_name})" if request.caller.client_name else ""
    words = f"May {request.principal.name}{client} call {call.key}?{why} ({decision.words} asks.){_ARGUMENTS}{exact}"
    identity = (request.principal.id, call.server, call.tool, call.digest, version)
    return StoredApproval(f"call-{secrets.token_hex(6)}", *identity, words, now, now + KEEP)


_EXPLAIN = "wicket policy explain shows which rule decides about a call."
