"""The pages that a browser visits when a user signs in to a server behind us.

/oauth/start/<ticket>, /oauth/callback     `identity/oauth/visits.py`
/oauth/client.json                         who we are, for authorization servers that read such documents (public
                                           https only)
"""

from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.identity.pages import PATH, START, headers_of, page
from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json

_DOCUMENT = "/oauth/client.json"


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
        if scope["method"] != "GET":
            await send_json(send, 405, {"error": "Only GET is served here."}, ((b"allow", b"GET"),))
            return
        if path == _DOCUMENT:
            await self._describe(send)
            return
        query: str = scope["query_string"].decode("latin-1")
        reply = await self._accounts.sign_ins.visits.answer(path, query, headers.get(b"cookie") or "")
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
