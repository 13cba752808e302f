"""The dashboard as a Mount: sign-in, routing, and the headers that keep it safe.

Every response forbids frames, other origins, and all scripts except our own file. Every change is a POST that repeats
the session's anti-CSRF token. The guard has already checked Host and Origin; here the cookie identifies the user.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from wicket_mcp.errors import CallerError, Denied, Unavailable, UnknownName, WicketError
from wicket_mcp.identity.grants import OAuthError
from wicket_mcp.identity.pages import find_cookie
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.surface.dashboard.actions import ACTIONS, Actions
from wicket_mcp.surface.dashboard.links import LONGEST_CHALLENGE, place_of, prove
from wicket_mcp.surface.dashboard.pages import Pages
from wicket_mcp.surface.dashboard.render import load_templates, render
from wicket_mcp.surface.dashboard.routes import ROUTES, find_route
from wicket_mcp.surface.dashboard.sessions import COOKIE, PERSON, ROOT, UiSession, UiSessions, cookie_of
from wicket_mcp.surface.dashboard.source import Source
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import BodyTooLarge, Disconnected, Receive, RequestHeaders, Scope, Send, read_body

MAX_FORM = 256 * 1024
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_STATIC = {
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

Identify = Callable[[str], Awaitable[Principal | None]]
"""The principal of this token; None if the token is unknown."""


class People(Protocol):
    """Where people sign in with an OpenID provider (`surface/authorization.py`)."""

    @property
    def offered(self) -> Sequence[tuple[str, str]]: ...

    async def visit(self, issuer: str, headers: RequestHeaders) -> tuple[str, str]: ...

    async def person(self, secret: str) -> Principal | None: ...


class Dashboard:
    """A Mount. `token` is the gateway's own token, None when no token is required; `bound` returns the address that we
    listen at.
    """

    authentication: Authentication = "none"

    def __init__(
        self,
        source: Source,
        sessions: UiSessions,
        identify: Identify,
        token: str | None,
        people: Callable[[], People | None],
        bound: Callable[[], str],
    ) -> None:
        self._people = people
        self._bound = bound
        self._pages = Pages(source)
        self._actions = Actions(source, self._pages)
        self._source = source
        self._sessions = sessions
        self._identify = identify
        self._token = token

    async def prepare(self) -> None:
        """Do what makes the first pages slow before somebody opens them."""
        await asyncio.to_thread(load_templates, first_page=True)
        await self._pages.prepare()
        await asyncio.to_thread(load_templates, first_page=False)

    def serves(self, path: str) -> bool:
        return path == ROOT or path.startswith(f"{ROOT}/")

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        parts = [unquote(part) for part in raw.decode("latin-1").partition("?")[0].split("/")[2:] if part]
        reply = _Reply(send, scope)
        try:
            query = _parse_fields(scope.get("query_string", b"").decode("latin-1"), 50)
            if scope["method"] == "POST":
                form = await _read_form(receive, headers)
                await self._post(parts, form, headers, reply)
            elif scope["method"] in ("GET", "HEAD"):
                await self._get(parts, query, headers, reply)
            else:
                await reply.page(405, "problem", {"words": "Use GET or POST."})
        except BodyTooLarge as problem:
            await reply.page(413, "problem", {"words": str(problem)})
        except UnknownName as problem:
            await reply.page(404, "problem", {"words": str(problem)})
        except Denied as problem:
            await reply.page(403, "problem", {"words": str(problem)})
        except WicketError as problem:
            await reply.page(400, "problem", {"words": str(problem)})
        except Disconnected:
            return

    # Reading

    async def _get(self, parts: list[str], query: Mapping[str, str], headers: RequestHeaders, reply: "_Reply") -> None:
        if parts[:1] == ["static"]:
            await reply.file(parts[-1])
            return
        code = query.get("code", "") if parts == ["sign-in"] else ""
        if parts == ["sign-in"] and (challenge := query.get("challenge", "")[:LONGEST_CHALLENGE]):
            await reply.text(prove(self._token, challenge, self._place()) if self._token else "")
            return
        if code and self._token and await self._sessions.take_link(code, self._token, self._place()):
            self._source.audit.act(LOCAL.name, "sign in to the dashboard")
            await reply.enter(self._sessions.begin(self._token))
            return
        session, principal = await self._visitor(headers)
        if session is None or principal is None:
            if self._token is None and parts != ["sign-in"]:
                await self._begin("", LOCAL, reply)
            else:
                if code:
                    self._source.audit.reject("", "dashboard: an old or used link")
                await self._show_sign_in(reply, 401 if code else 200, stale=bool(code))
            return
        reply.visitor(session, principal)
        await self._show(parts or ["overview"], query, principal, reply)

    def _place(self) -> str:
        bound = urlsplit(self._bound())
        return place_of(bound.hostname or "", bound.port or 80)

    async def _show(self, parts: list[str], query: Mapping[str, str], principal: Principal, reply: "_Reply") -> None:
        page, names = find_route(ROUTES, parts)
        page.check(principal)
        live = query.get("live") == "1" and page.address in ("activity", "overview")
        template = page.address.removesuffix("s/*") if names else page.address
        values = await page.show(self._pages, principal, query, *names)
        await reply.page(200, f"{template}_live" if live else template, {**values, "asked": query})

    # Changing

    async def _post(self, parts: list[str], form: Mapping[str, str], headers: RequestHeaders, reply: "_Reply") -> None:
        if not _is_same_origin(headers):
            raise Denied("This form was sent from another site.", hint="Open the dashboard and send it from there.")
        if parts == ["sign-in"] and "provider" in form:
            await self._leave(form["provider"], headers, reply)
            return
        if parts == ["sign-in"]:
            await self._sign_in(form.get("token", "").strip(), reply)
            return
        session, principal = await self._visitor(headers)
        if session is None or principal is None:
            await reply.move(f"{ROOT}/sign-in")
            return
        if not hmac.compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
            raise Denied("This form is too old, or not ours.", hint="Load the page again.")
        reply.visitor(session, principal)
        if parts == ["sign-out"]:
            await self._sessions.end(session.id)
            await reply.move(f"{ROOT}/sign-in", forget=True)
            return
        action, names = find_route(ACTIONS, parts)
        action.check(principal)
        outcome = await action.act(self._actions, principal, form, *names)
        if isinstance(outcome, str):
            await reply.move(f"{ROOT}/{outcome}")
        else:
            await reply.page(200, *outcome)

    async def _sign_in(self, token: str, reply: "_Reply") -> None:
        principal = await self._identify(token) if token or self._token is None else None
        if principal is None:
            self._source.audit.reject("", "dashboard: a wrong token")
            await self._show_sign_in(reply, 401, wrong=True)
            return
        await self._begin(token, principal, reply)

    async def _begin(self, token: str, principal: Principal, reply: "_Reply") -> None:
        self._source.audit.act(principal.id, "sign in to the dashboard")
        await reply.move(ROOT, self._sessions.begin(token))

    async def _show_sign_in(self, reply: "_Reply", status: int, **values: bool) -> None:
        people = self._people()
        await reply.page(status, "sign_in", {**values, "providers": () if people is None else people.offered})

    async def _leave(self, issuer: str, headers: RequestHeaders, reply: "_Reply") -> None:
        """Send the browser to a provider, which sends it back to `/oauth/signed-in`."""
        people = self._people()
        if people is None:
            raise UnknownName("provider", issuer[:100])
        try:
            url, cookie = await people.visit(issuer, headers)
        except OAuthError as problem:
            raise Unavailable("provider", str(problem)) from None
        await reply.leave(url, cookie)

    async def _visitor(self, headers: RequestHeaders) -> tuple[UiSession | None, Principal | None]:
        secret = find_cookie(headers.get(b"cookie") or "", COOKIE)
        session = await self._sessions.find(secret) if secret else None
        if session is None:
            return None, None
        if not session.token.startswith(PERSON):
            return session, await self._identify(session.token)
        people = self._people()
        person = None if people is None else await people.person(session.token.removeprefix(PERSON))
        return session, None if person is None else self._source.place(person)


class _Reply:
    """The answer to one request."""

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._secure = scope.get("scheme") == "https"
        self._bodiless = scope["method"] == "HEAD"
        self._common: JsonObject = {}

    def visitor(self, session: UiSession, principal: Principal) -> None:
        self._common = {"csrf": session.csrf, "who": principal, "admin": principal.may("admin")}

    async def page(self, status: int, template: str, values: Mapping[str, Any]) -> None:
        body = render(f"{template}.html", {**self._common, **values, "page": template}).encode("utf-8", "replace")
        await self._answer(status, body, "text/html; charset=utf-8")

    async def file(self, name: str) -> None:
        if name not in _STATIC:
            await self.page(404, "problem", {"words": "There is no such file."})
            return
        body = files("wicket_mcp.surface.dashboard").joinpath("static", name).read_bytes()
        await self._answer(200, body, _STATIC[name])

    async def move(self, where: str, session: UiSession | None = None, *, forget: bool = False) -> None:
        """Redirect to another page; begin a session or end it."""
        extra: list[tuple[bytes, bytes]] = [(b"location", where.encode())]
        if session is not None or forget:
            extra.append((b"set-cookie", cookie_of(session, secure=self._secure).encode()))
        await self._answer(303, b"", "text/plain", extra)

    async def text(self, words: str) -> None:
        await self._answer(200, words.encode(), "text/plain")

    async def enter(self, session: UiSession) -> None:
        """Lead on from a link by a page: a browser sends our strict cookie only where a page of ours leads."""
        await self.leave(ROOT, cookie_of(session, secure=self._secure))

    async def leave(self, url: str, cookie: str) -> None:
        """Send the browser on, also to another site: by a page, because the policy lets our forms lead only to us."""
        body = render("leave.html", {"url": url, "page": "leave"}).encode("utf-8", "replace")
        await self._answer(200, body, "text/html; charset=utf-8", [(b"set-cookie", cookie.encode())])

    async def _answer(
        self, status: int, body: bytes, kind: str, extra: "list[tuple[bytes, bytes]] | tuple[()]" = ()
    ) -> None:
        head = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *SAFE_HEADERS, *extra]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": b"" if self._bodiless else body})


async def _read_form(receive: Receive, headers: RequestHeaders) -> dict[str, str]:
    body = await read_body(receive, headers, MAX_FORM)
    return _parse_fields(body.decode("utf-8", "replace"), 200, keep_blank=True)


def _parse_fields(text: str, most: int, *, keep_blank: bool = False) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=keep_blank, max_num_fields=most))
    except ValueError:
        raise CallerError("There are too many fields.", hint=f"Send at most {most}.") from None


def _is_same_origin(headers: RequestHeaders) -> bool:
    """Whether one of our own pages sent the form, as far as the browser tells us."""
    if (headers.get(b"sec-fetch-site") or "same-origin") not in ("same-origin", "none"):
        return False
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return origin is None or origin.partition("://")[2] == host
