"""Blocks calls of what is not accepted yet: a tool, prompt or template that changed or is new, or any entry whose text
has a problem (`trust/pins.py`).

Part of the stack of servers whose configuration holds changes. If the client can ask its user, and the user is the
gateway's owner or a person who administers it, the user may accept a change that a form can show whole; everyone else
is told what changed.
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from wicket_mcp.budget import MAX_ADDRESS
from wicket_mcp.calls.asking import can_ask, confirm
from wicket_mcp.calls.sign_in import DemandAccount
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.errors import Denied
from wicket_mcp.identity.approver import Approver, agrees_by_form
from wicket_mcp.model import as_object, as_text
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.telemetry.log import quote_name
from wicket_mcp.trust.pins import Entry, Held, held_entry

_EXPRESSION = re.compile(r"\{[^{}]*\}")  # in a template: a placeholder in an address
_SHOWN = 8000  # characters of a diff that a form may have: what a person does not see is not accepted by one


def check_held(catalogue: Catalogue, approver: Approver, demand_account: DemandAccount) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            caller = request.caller
            if catalogue.is_current(request.server, caller) and _find(catalogue, request) is None:
                return await inner(request)
            await catalogue.settle(request.server, caller)
            change = _find(catalogue, request)
            if change is not None:
                await demand_account(request)
                await _settle(catalogue, approver, change, request)
            tool = request.tool
            if tool is not None:  # as it is accepted now, which may differ from what the caller found
                tool = catalogue.view(request.principal).find(tool.server, tool.name) or tool
            return await inner(replace(request, tool=tool))

        return handle

    return layer


def _find(catalogue: Catalogue, request: Request) -> Held | None:
    changes = catalogue.held_entries(request.server)
    if not changes:
        return None
    if request.tool is not None:
        return changes.get(held_entry(request.tool))
    if request.method == "prompts/get":
        return changes.get(("prompt", as_text(request.params.get("name"))))
    if request.method == "completion/complete":
        reference = as_object(request.params.get("ref"))
        return changes.get(("prompt", as_text(reference.get("name")))) or _template(changes, reference.get("uri"))
    uri = request.params.get("uri")
    return changes.get(("resource", as_text(uri))) or _template(changes, uri)


def _template(changes: Mapping[Entry, Held], uri: object) -> Held | None:
    """The held template that an address may have been made from."""
    if not isinstance(uri, str):
        return None
    templates = ((name, change) for (kind, name), change in changes.items() if kind == "template")
    return next((change for name, change in templates if name == uri or _fits(name, uri)), None)


def _fits(template: str, uri: str) -> bool:
    """Whether an address has the texts of a template in their order, with anything in the place of its placeholders.

    In linear time: the template is a stranger's. An address longer than any honest one fits every template.
    """
    if len(uri) > MAX_ADDRESS:
        return True
    first, *others = _EXPRESSION.split(template)
    if not others:
        return first == uri
    *between, last = others
    at, end = len(first), len(uri) - len(last)
    for text in between:
        start = uri.find(text, at, end)
        if start < 0:
            return False
        at = start + len(text)
    return at <= end and uri.startswith(first) and uri.endswith(last)


async def _settle(catalogue: Catalogue, approver: Approver, change: Held, request: Request) -> None:
    """Ask the client's user to accept the change. Raises Denied if that does not happen."""
    caller = request.caller
    request.span.rule = f"{'added' if change.pinned is None else 'changed'}: hold"
    may_agree = caller.principal.may("admin") and can_ask(caller) and await agrees_by_form(approver, caller.principal)
    if may_agree and len(diff := change.diff()) <= _SHOWN:
        name = f"{change.kind} {quote_name(change.key)}"
        if await confirm(caller, f"Accept {name}? It is held: {change.words}.\n\n{diff}"):
            agreed = f"{caller.principal.name} by {caller.client_name}" if caller.client_name else caller.principal.name
            await catalogue.approve(change, agreed)
            request.span.rule += f", approved by {agreed}"
            return
    raise Denied(f"'{change.key}' is held and was not called: {change.words}.", hint=change.remedy)
