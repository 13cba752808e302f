"""The pages that a browser visits when a user signs in to a server behind us.

/oauth/start/<ticket>, /oauth/callback     `identity/oauth/visits.py`
/oauth/client.json                         who we are, for authorization servers that read such documents (public
                                           https only)
"""

from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.identity.pages import OTHER_PAGE, PATH, START, Reply, headers_of, page
from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import (
    BodyTooLarge,
    Disconnected,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    is_own_form,
    read_body,
    send_json,
)

_DOCUMENT = "/oauth/client.json"
_LONGEST_FORM = 4096


class Callback:
    """See the module's docstring. Mounted when HTTP is served."""

    authentication: Authentication = "none"

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def serves(self, path: str) -> bool:
        return path in (PATH, _DOCUMENT) or path.startswith(START)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        path: str = scope["path"]
        verbs = ("GET", "POST") if path.startswith(START) else ("GET",)
        if scope["method"] not in verbs:
            allowed = ", ".join(verbs)
            await send_json(send, 405, {"error": f"Use {allowed}."}, ((b"allow", allowed.encode()),))
            return
        if path == _DOCUMENT:
            await self._describe(send)
            return
        visits, cookies = self._accounts.sign_ins.visits, headers.get(b"cookie") or ""
        if scope["method"] == "GET":
            reply = await visits.answer(path, scope["query_string"].decode("latin-1"), cookies)
        elif is_own_form(headers, self._accounts.address):
            try:
                form = await read_body(receive, headers, _LONGEST_FORM)
            except Disconnected:
                return
            except BodyTooLarge as problem:
                await send_json(send, 413, {"error": problem.message})
                return
            reply = await visits.press(path, form.decode("latin-1"), cookies)
        else:
            reply = Reply(403, OTHER_PAGE)
        body = page(reply)
        fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers_of(reply, body)]
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    async def _describe(self, send: Send) -> None:
        address = self._accounts.address
        if not address.startswith("https://"):
            await send_json(send, 404, {"error": "There is no public address (http.public_url) to describe."})
            return
        from wicket_mcp.identity.oauth.messages import describe  # noqa: PLC0415  (few gateways sign in anywhere)

        await send_json(send, 200, {"client_id": f"{address}{_DOCUMENT}", **describe(f"{address}{PATH}")})
