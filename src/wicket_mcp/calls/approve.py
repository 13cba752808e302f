"""Whether a call may be made: checks the rules of `[[policy]]` and, if they require it, asks a person.

Part of the stack only if the configuration has rules about the server, or tracks data flow. The client's user is asked
by elicitation if the rule lets the caller decide. Otherwise, and if the client cannot ask, the call is refused until it
is approved at the gateway and made again. An approval covers one call of one principal with exactly these arguments,
under these rules, for a limited time, and is used up when that call is sent; "always" turns it into a rule
(`trust/always.py`). A model's own words never count as an approval.
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.calls.asking import ALWAYS, NO, SESSION, YES, can_ask, choose, show, show_arguments
from wicket_mcp.calls.sign_in import DemandAccount
from wicket_mcp.codec import canonical, pretty
from wicket_mcp.errors import NOTHING_DONE, Denied, Refused, UpstreamError, WicketError
from wicket_mcp.identity.approver import Approver, agrees_by_form
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.store.base import ApprovalStore
from wicket_mcp.store.model import StoredApproval, Who
from wicket_mcp.telemetry.log import enclose, escape, one_line, quote, quote_name
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
MAX_WAITING = 100
"""Calls of one principal that may wait for a person."""
_MARKS = {ALWAYS: ALWAYS_MARK, SESSION: SESSION_MARK}
_STORED = 1_000_000  # characters of arguments shown to a person at the gateway, who must see exactly what is called


Origin: TypeAlias = Callable[[str, Principal], Awaitable[tuple[str, JsonObject]]]


SessionApprovals: TypeAlias = dict[tuple[str, ...], str]
"""Approvals for a session: principal, session, tool, arguments and version of the rule, to the approver. They end with
their rule, and the oldest is dropped if there are too many.
"""


class Approvals(msgspec.Struct, frozen=True):
    """The rules, and the memory of a person's decisions."""

    rules: Rules
    store: ApprovalStore
    origin: Origin
    """The call that produced a stored result, and the result."""
    always: Always
    """The approvals given with "always"."""
    approver: Approver
    demand_account: DemandAccount
    flow: Flow | None = None
    sessions: SessionApprovals = msgspec.field(default_factory=dict[tuple[str, ...], str])
    """Kept from one configuration to the next."""

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
            try:
                result = await inner(request) if flow is None else await _follow(flow, request, inner)
            except NOTHING_DONE:
                if once is not None:
                    await _give_back(approvals.store, once)
                raise
            if once is not None and result.body.get("resultType") == "input_required":
                await _keep_for_next_step(approvals.store, replace(once, arguments_digest=call.digest), result.body)
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
    why = f" {one_line(finding.words)}" if finding is not None else ""
    if decision.action == "allow":
        return None
    if decision.action == "deny":
        raise Denied(f"{enclose(call.key)} was not called: {decision.words} refuses it.{why}", hint=_EXPLAIN)
    if (covered := await approvals.always.find(call)) is not None:
        span.rule += f", {covered}"
        return None
    answerer: Who = decision.by or (
        "caller" if await agrees_by_form(approvals.approver, request.principal) else "other"
    )
    question = _question(request, call, decision, why, answerer)
    if (by := approvals.sessions.get(_in_session(request, question))) is not None:
        span.rule += f", approved by {by}{SESSION_MARK}"
        return None
    if (spent := await _spend(approvals.store, request, question)) is not None:
        await _accept(approvals, request, call, spent)
        return spent
    await approvals.demand_account(request)
    if question.who == "other" or not can_ask(request.caller):
        raise await _wait_for_a_person(approvals.store, question, decision, why, in_script=bool(span.run))
    answer = await _ask(approvals.store, request, call, question)
    if answer == NO:
        span.rule += ", refused by the user"
        raise Denied(f"{enclose(call.key)} was not called: the user refused.", hint="Do not try again unless told to.")
    approved = replace(question, approved_by=f"{request.principal.name}{_MARKS.get(answer, '')}")
    await _accept(approvals, request, call, approved)
    return approved


async def _ask(store: ApprovalStore, request: Request, call: Call, question: StoredApproval) -> str:
    """The choice of the client's user. What is not shown whole may be approved once only, and is shown elsewhere."""
    arguments, is_all = show_arguments(mask_strings(call.arguments))
    if is_all:
        # An "always" rule belongs to the owner, so only administrators may create one.
        choices = (YES, SESSION, ALWAYS, NO) if request.principal.may("admin") else (YES, SESSION, NO)
        return await choose(request.caller, f"{question.words}\nArguments: {arguments}", choices)
    await store.save_approval(question)
    try:
        where = f"Not all of it is shown here: the dashboard shows it under Approvals, as {question.id}."
        return await choose(request.caller, f"{question.words} {where}\nArguments: {arguments}")
    finally:
        await store.withdraw(question.id)


async def _accept(approvals: Approvals, request: Request, call: Call, approved: StoredApproval) -> None:
    """Note who approved the call, and for how long."""
    approver = approved.approved_by
    request.span.rule += f", approved by {approver}"
    if approver.endswith(ALWAYS_MARK):
        await _keep(approvals.always, call, approver.removesuffix(ALWAYS_MARK))
    elif approver.endswith(SESSION_MARK):
        _keep_for_session(approvals, request, approved, approver.removesuffix(SESSION_MARK))


async def _spend(store: ApprovalStore, request: Request, question: StoredApproval) -> StoredApproval | None:
    """Use up an approval of this call, or of this further step of a call."""
    if request.resume and (spent := await store.spend(_next_step(question, request.resume), time.time())):
        return spent
    return await store.spend(question, time.time())


async def _give_back(store: ApprovalStore, once: StoredApproval) -> None:
    """The call was not sent, so its approval is still good for it."""
    if not once.approved_by.endswith((ALWAYS_MARK, SESSION_MARK)):
        await store.save_approval(replace(once, id=_new_id()))


async def _keep_for_next_step(store: ApprovalStore, once: StoredApproval, body: JsonObject) -> None:
    """A server asks its caller for more before it acts. The same call with the answers needs no second approval."""
    approver = once.approved_by.removesuffix(ALWAYS_MARK).removesuffix(SESSION_MARK)
    now = time.time()
    step = replace(_next_step(once, body), id=_new_id(), asked_at=now, expires_at=now + KEEP)
    await store.save_approval(replace(step, approved_by=approver))


def _next_step(question: StoredApproval, states: Mapping[str, Any]) -> StoredApproval:
    """The same question about the step of a call that has this `requestState`."""
    step = canonical([question.arguments_digest, states.get("requestState")])
    return replace(question, arguments_digest=hashlib.sha256(step).hexdigest())


def _in_session(request: Request, question: StoredApproval) -> tuple[str, ...]:
    same = question.server, question.tool, question.arguments_digest, question.policy
    return question.principal, request.caller.session, *same


def _keep_for_session(approvals: Approvals, request: Request, question: StoredApproval, by: str) -> None:
    """Stop asking about this call, with exactly these arguments, in this session."""
    while len(approvals.sessions) >= MAX_SESSION_APPROVALS:
        del approvals.sessions[next(iter(approvals.sessions))]
    approvals.sessions[_in_session(request, question)] = by


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
    waiting = [
        pending
        for pending in await store.approvals(question.asked_at)
        if pending.principal == question.principal and not pending.approved_by
    ]
    known = [entry for entry in waiting if all(getattr(entry, field) == getattr(question, field) for field in same)]
    name = enclose(f"{question.server}.{question.tool}")
    refused = f"{name} was not called: {decision.words} requires a person's approval.{why}"
    if not known and len(waiting) >= MAX_WAITING:
        return Denied(refused, hint=f"{MAX_WAITING} calls wait for one already: ask the user to decide about them.")
    if not known:
        await store.save_approval(question)
    number = known[0].id if known else question.id
    again = "run the script again (its earlier calls are made again)" if in_script else "make the same call again"
    somebody = "somebody else than its caller" if question.who == "other" else "the user"
    return Denied(refused, hint=f"Ask {somebody} to approve {number} in Wicket. After that, {again}.")


def _question(request: Request, call: Call, decision: Decision, why: str, answerer: Who) -> StoredApproval:
    """What a person is asked: no text of the client or the server can be taken for a part of the question."""
    now = time.time()
    exact = show(escape(pretty(mask_strings(call.arguments))), _STORED)
    client = f" (client {quote(request.caller.client_name)})" if request.caller.client_name else ""
    asker = f"{quote_name(request.principal.name)}{client}"
    words = f"May {asker} call {quote_name(call.key)}?{why} ({decision.words} asks.)"
    identity = (request.principal.id, call.server, call.tool, call.digest, decision.version)
    return StoredApproval(_new_id(), *identity, words, now, now + KEEP, arguments=exact, who=answerer)


def may_approve(question: StoredApproval, approver: Principal) -> bool:
    """Whether an administrator may approve this call at the gateway: a key's own call is somebody else's to approve."""
    return question.who != "other" or approver.is_person or approver.id != question.principal


def shows_all(question: StoredApproval) -> bool:
    """Whether a person at the gateway sees the arguments whole."""
    return len(question.arguments) <= _STORED


def _new_id() -> str:
    return f"call-{secrets.token_hex(6)}"


_EXPLAIN = "wicket policy explain shows which rule decides about a call."
