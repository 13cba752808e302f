"""What a browser gets when a person signs in, at the gateway's own address or on a loopback port.

    /oauth/start/<ticket>     the link that a person opens: ties the sign-in to this browser, and sends it on
    /oauth/callback           where the authorization server sends the browser back

Needs no token: a ticket and a `state` are secrets themselves. Both work for ten minutes, and the `state` only in the
browser that opened the ticket. When a user connects their own account, a page says whose account it will be before they
sign in. Each sign-in has a cookie of its own, so that a browser can be on the way to several servers.
"""

import hashlib
import hmac
from typing import TYPE_CHECKING

from wicket_mcp.identity.pages import START, Reply, find_cookie, read_query

if TYPE_CHECKING:
    from wicket_mcp.identity.oauth.signin import Begun, SignIns

_COOKIE = "wicket-sign-in"


class Visits:
    """Answers the browsers of people who sign in."""

    def __init__(self, sign_ins: "SignIns") -> None:
        self._sign_ins = sign_ins

    async def answer(self, path: str, query: str, cookies: str) -> Reply:
        if path.startswith(START):
            return await self._start(path.removeprefix(START), query, cookies)
        return await self._finish(read_query(query), cookies)

    async def _start(self, ticket: str, query: str, cookies: str) -> Reply:
        begun = await self._sign_ins.find(ticket)
        if begun is None:
            return Reply(404, "This link is unknown, has expired or was used already. Begin again in your client.")
        if begun.user and not (query == "go" and _opened_here(begun, cookies)):
            text = (  # nobody can send a person a link that skips this page
                f"You are about to sign in to '{begun.server}'. Everyone who uses this gateway as '{begun.user}' will "
                "act there with your account. If that is not you, close this page."
            )
            return Reply(200, text, link=f"{begun.link}?go", cookie=_cookie(begun))
        await self._sign_ins.leave(begun)
        return Reply(302, location=begun.url, cookie=_cookie(begun))

    async def _finish(self, query: dict[str, str], cookies: str) -> Reply:
        begun = await self._sign_ins.read(query.get("state", ""))
        if begun is None or not _opened_here(begun, cookies):
            text = "This sign-in was begun in another browser, has expired or was used already."
            return Reply(403, f"{text} Begin again in your client.")
        return Reply(200, await self._sign_ins.finish(query))


def _opened_here(begun: "Begun", cookies: str) -> bool:
    """Whether a browser with these cookies has opened the link."""
    return hmac.compare_digest(begun.browser.encode(), find_cookie(cookies, _name(begun)).encode())


def _name(begun: "Begun") -> str:
    own = hashlib.sha256(begun.ticket.encode()).hexdigest()[:8]
    return f"{'__Host-' if _is_secure(begun) else ''}{_COOKIE}-{own}"


def _cookie(begun: "Begun") -> str:
    secure = "; Secure" if _is_secure(begun) else ""
    return f"{_name(begun)}={begun.browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600{secure}"


def _is_secure(begun: "Begun") -> bool:
    return begun.address.startswith("https://")
