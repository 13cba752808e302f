"""What a browser gets when a person signs in, at the gateway's own address or on a loopback port.

    /oauth/start/<ticket>     the link that a person opens: ties the sign-in to this browser, and sends it on
    /oauth/callback           where the authorization server sends the browser back

Needs no token: a ticket and a `state` are secrets themselves. Both work for ten minutes, and the `state` only in a
browser that was sent on from here. When a user connects their own account, whoever began the sign-in knows ticket and
`state`: a page says whose account it will be, and a browser is sent on only by that page's own button. The same page
asks where somebody signs in for another server at the same place. Each sign-in has a cookie of its own, so that a
browser can be on the way to several servers.
"""

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wicket_mcp.identity.pages import START, Reply, find_cookie, read_query

if TYPE_CHECKING:
    from wicket_mcp.identity.oauth.signin import Begun, SignIns

_COOKIE = "wicket-sign-in"
_UNKNOWN = Reply(404, "This link is unknown, has expired or was used already. Begin again in your client.")


class Visits:
    """Answers the browsers of people who sign in."""

    def __init__(self, sign_ins: "SignIns") -> None:
        self._sign_ins = sign_ins

    async def answer(self, path: str, query: str, cookies: str) -> Reply:
        """Answer a GET."""
        if not path.startswith(START):
            return await self._finish(read_query(query), cookies)
        begun = await self._sign_ins.find(path.removeprefix(START))
        if begun is None:
            return _UNKNOWN
        return _ask(begun, cookies) if begun.user or begun.other else await self._leave(begun, 302)

    async def press(self, path: str, form: str, cookies: str) -> Reply:
        """Answer the page's button. The caller has checked that a page of ours posted it."""
        begun = await self._sign_ins.find(path.removeprefix(START))
        if begun is None:
            return _UNKNOWN
        visitor = find_cookie(cookies, _name(begun))
        sent = read_query(form).get("nonce", "").encode()
        if not visitor or not hmac.compare_digest(_nonce(begun, visitor).encode(), sent):
            return _ask(begun, cookies)
        return await self._leave(begun, 303)

    async def _leave(self, begun: "Begun", status: int) -> Reply:
        await self._sign_ins.leave(begun)
        return Reply(status, location=begun.url, cookie=_cookie(begun, begun.browser))

    async def _finish(self, query: dict[str, str], cookies: str) -> Reply:
        begun = await self._sign_ins.read(query.get("state", ""))
        if begun is None or not hmac.compare_digest(
            begun.browser.encode(), find_cookie(cookies, _name(begun)).encode()
        ):
            text = "This sign-in was begun in another browser, has expired or was used already."
            return Reply(403, f"{text} Begin again in your client.")
        return Reply(200, await self._sign_ins.finish(query))


def _ask(begun: "Begun", cookies: str) -> Reply:
    """The page before a browser is sent on, and a cookie for the browser that sees it."""
    server, place = urlsplit(begun.grant.url).netloc, urlsplit(begun.url).netloc
    text = f"You are about to sign in to '{begun.server}' ({server}) at {place}."
    if begun.user:
        text += (
            f" Everyone who uses this gateway as '{begun.user}' will act there with your account. If that is not you, "
            "close this page."
        )
    if begun.other:
        text += (
            f" You also sign in to {begun.other} at {place}: what {server} gets may work there too. Continue only if "
            "you trust both alike."
        )
    visitor = find_cookie(cookies, _name(begun)) or secrets.token_urlsafe(32)
    return Reply(200, text, action=begun.link, nonce=_nonce(begun, visitor), cookie=_cookie(begun, visitor))


def _nonce(begun: "Begun", visitor: str) -> str:
    """Differs for each browser: whoever began the sign-in cannot know that of another person's."""
    return hmac.digest(begun.browser.encode(), visitor.encode(), "sha256").hex()


def _name(begun: "Begun") -> str:
    own = hashlib.sha256(begun.ticket.encode()).hexdigest()[:8]
    return f"{'__Host-' if _is_secure(begun) else ''}{_COOKIE}-{own}"


def _cookie(begun: "Begun", value: str) -> str:
    secure = "; Secure" if _is_secure(begun) else ""
    return f"{_name(begun)}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600{secure}"


def _is_secure(begun: "Begun") -> bool:
    return begun.address.startswith("https://")
