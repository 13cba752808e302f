"""What the forms of the dashboard do: a method for each, and the table of their addresses.

`mount.py` has checked that a form is ours and who sends it. A method gets the sender, the form, and the names in its
address, and returns where the browser goes then (below `/ui`), or the page to show and its values.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import quote

from wicket_mcp.calls.approve import ALWAYS_MARK, SESSION_MARK, may_approve, shows_all
from wicket_mcp.errors import Denied, UnknownName
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.surface.dashboard.pages import Asked, Pages
from wicket_mcp.surface.dashboard.routes import Route
from wicket_mcp.surface.dashboard.source import Source

Outcome: TypeAlias = str | tuple[str, JsonObject]
_MARKS = {"once": "", "session": SESSION_MARK, "always": ALWAYS_MARK}


class Actions:
    """The forms, over one gateway."""

    def __init__(self, source: Source, pages: Pages) -> None:
        self._source = source
        self._pages = pages

    async def call(self, principal: Principal, form: Asked, key: str) -> Outcome:
        return "tool", await self._pages.call(principal, form, key)

    async def start(self, principal: Principal, form: Asked, name: str) -> Outcome:
        server = await self._find_server(principal, name)
        await self._source.start(server)
        return self._finish(principal, "start server", server)

    async def stop(self, principal: Principal, form: Asked, name: str) -> Outcome:
        server = await self._find_server(principal, name)
        await self._source.stop(server, principal)
        return self._finish(principal, "stop server", server)

    async def enable(self, principal: Principal, form: Asked, name: str) -> Outcome:
        await self._source.enable(name, True)
        self._source.audit.act_on(principal.id, "enable server", name)
        return "servers"

    async def disable(self, principal: Principal, form: Asked, name: str) -> Outcome:
        await self._source.enable(name, False)
        self._source.audit.act_on(principal.id, "disable server", name)
        return "servers"

    async def sign_in(self, principal: Principal, form: Asked, name: str) -> Outcome:
        server = await self._find_server(principal, name)
        link = await self._source.sign_in(server, principal)
        return "server", {**await self._pages.server(principal, form, server), "link": link}

    async def give_keys(self, principal: Principal, form: Asked, name: str) -> Outcome:
        return _page_of(await self._pages.give_keys(principal, form, name))

    async def approve(self, principal: Principal, form: Asked, approval: str, how: str) -> Outcome:
        mark = _MARKS.get(how)
        if mark is None:
            raise UnknownName("page", f"approvals/{approval}/{how}"[:100])
        waiting = {
            call.id: call for call in await self._source.approvals.approvals(time.time()) if not call.approved_by
        }
        if (call := waiting.get(approval)) is None:
            raise UnknownName("open question", approval[:40])
        if not may_approve(call, principal):
            raise Denied("A call of this key needs the approval of somebody else.")
        if mark and not shows_all(call):
            raise Denied("Not all of its arguments can be shown, so it can be approved once only.")
        await self._source.approver.check(form.get("passphrase", ""))
        if await self._source.approvals.approve(approval, f"{principal.name}{mark}", time.time()) is None:
            raise UnknownName("open question", approval[:40])
        detail = f"{call.server}.{call.tool} {approval}"
        self._source.audit.act(principal.id, f"approve call{mark}", detail, server=call.server)
        return "approvals"

    async def revoke_approval(self, principal: Principal, form: Asked, number: str) -> Outcome:
        if (revoked := await self._source.always().revoke(number)) is None:
            raise UnknownName("standing approval", number[:40])
        detail = f"{revoked.server}.{revoked.tool} {number}"
        self._source.audit.act(principal.id, "revoke always", detail, server=revoked.server)
        return "approvals"

    async def accept(self, principal: Principal, form: Asked) -> Outcome:
        await self._pages.accept(principal, form)
        return "approvals"

    async def revoke_key(self, principal: Principal, form: Asked, name: str) -> Outcome:
        await self._source.keys.revoke(name)
        self._source.audit.act(principal.id, "revoke key", name)
        return "access"

    async def revoke_grant(self, principal: Principal, form: Asked, grant: str) -> Outcome:
        own = {entry.id for entry in await self._source.grants().list() if entry.principal == principal.id}
        if not principal.may("admin") and grant not in own:
            raise Denied("Only administrators revoke what others have allowed.")
        await self._source.grants().revoke(grant, by=principal.id)
        return "access"

    async def _find_server(self, principal: Principal, name: str) -> str:
        return (await self._source.verbs().current_view(principal)).server(name).name

    def _finish(self, principal: Principal, act: str, server: str) -> str:
        self._source.audit.act_on(principal.id, act, server)
        return _page_of(server)


class Action(Route, frozen=True, kw_only=True):
    """A form."""

    act: Callable[..., Awaitable[Outcome]]


ACTIONS: Sequence[Action] = (
    Action("tools/*/call", "discover", act=Actions.call),
    Action("servers/*/start", "admin", "Only administrators start and stop servers.", act=Actions.start),
    Action("servers/*/stop", "admin", "Only administrators start and stop servers.", act=Actions.stop),
    Action("servers/*/enable", "admin", "Only administrators enable and disable servers.", act=Actions.enable),
    Action("servers/*/disable", "admin", "Only administrators enable and disable servers.", act=Actions.disable),
    Action("servers/*/sign-in", "discover", act=Actions.sign_in),
    Action("servers/*/keys", "discover", act=Actions.give_keys),
    Action("approvals/held", "admin", "Only administrators approve what servers say.", act=Actions.accept),
    Action("approvals/*/revoke", "admin", "Only administrators revoke approvals.", act=Actions.revoke_approval),
    Action("approvals/*/*", "admin", "Only administrators approve calls.", act=Actions.approve),
    Action("access/keys/*/revoke", "admin", "Only administrators revoke keys.", act=Actions.revoke_key),
    Action("access/grants/*/revoke", act=Actions.revoke_grant),
)


def _page_of(server: str) -> str:
    return f"servers/{quote(server, safe='')}"
