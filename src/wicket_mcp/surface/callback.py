"""The pages that a browser visits when a user signs in to a server behind us.

    /oauth/start/<ticket>     the link that a client shows: ties the sign-in to this browser, and sends it on
    /oauth/callback           where the authorization server sends the browser back
    /oauth/client.json        who we are, for authorization servers that read such documents (public https only)

Needs no token: a ticket and a `state` are secrets themselves. Both work for ten minutes, and the `state` only in the
browser that opened the ticket. When a user connects their own account, a page says whose account it will be before they
sign in.
"""

import hmac
from typing import TYPE_CHECKING

from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.identity.pages import PAGE_HEADERS, PATH, START, page, read_query
from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Headers, Receive, RequestHeaders, Scope, Send, send_json

if TYPE_CHECKING:
    from wicket_mcp.identity.oauth.signin import Begun

_DOCUMENT = "/oauth/client.json"
_COOKIE = "wicket-sign-in"
_PAGE: Headers = tuple((name.lower().encode(), value.encode()) for name, value in PAGE_HEADERS)


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
        elif path == _DOCUMENT:
            await self._describe(send)
        elif path.startswith(START):
            await self._start(scope, headers, path.removeprefix(START), send)
        else:
            await self._finish(scope, headers, send)

    async def _describe(self, send: Send) -> None:
        address = self._accounts.address
        if not address.startswith("https://"):
            await send_json(send, 404, {"error": "There is no public address (http.public_url) to describe."})
            return
        from wicket_mcp.identity.oauth.messages import describe  # noqa: PLC0415  (few gateways sign in anywhere)

        await send_json(send, 200, {"client_id": f"{address}{_DOCUMENT}", **describe(f"{address}{PATH}")})

    async def _start(self, scope: Scope, headers: RequestHeaders, ticket: str, send: Send) -> None:
        begun = await self._accounts.sign_ins.find(ticket)
        if begun is None:
            await _show(send, 404, "This link is unknown, has expired or was used already. Begin again in your client.")
            return
        cookie = (b"set-cookie", self._cookie(begun).encode())
        warned = scope["query_string"] == b"go" and _is_secret(begun.browser, self._secret(headers))
        if begun.user and not warned:  # nobody can send a person a link that skips this page
            text = (
                f"You are about to sign in to '{begun.server}'. Everyone who uses this gateway as '{begun.user}' will "
                "act there with your account. If that is not you, close this page."
            )
            await _show(send, 200, text, cookie, link=f"{begun.link}?go")
            return
        await self._accounts.sign_ins.leave(begun)
        await _redirect(send, begun.url, cookie)

    async def _finish(self, scope: Scope, headers: RequestHeaders, send: Send) -> None:
        query = read_query(scope["query_string"].decode("latin-1"))
        sign_ins = self._accounts.sign_ins
        if not await sign_ins.began_in(query.get("state", ""), self._secret(headers)):
            await _show(
                send, 403, "This sign-in was begun in another browser, or has expired. Begin again in your client."
            )
            return
        await _show(send, 200, await sign_ins.finish(query))

    def _secret(self, headers: RequestHeaders) -> str:
        """The browser's secret from its cookie."""
        cookies = dict(pair.strip().split("=", 1) for pair in (headers.get(b"cookie") or "").split(";") if "=" in pair)
        return cookies.get(self._name(), "")

    def _name(self) -> str:
        return f"__Host-{_COOKIE}" if self._accounts.address.startswith("https://") else _COOKIE

    def _cookie(self, begun: "Begun") -> str:
        secure = "; Secure" if self._accounts.address.startswith("https://") else ""
        return f"{self._name()}={begun.browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600{secure}"


def _is_secret(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.encode())


async def _show(send: Send, status: int, text: str, *more: tuple[bytes, bytes], link: str = "") -> None:
    body = page(text, link)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*_PAGE, *more, length]})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, url: str, *more: tuple[bytes, bytes]) -> None:
    headers = [
        (b"location", url.encode()),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        *more,
    ]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
