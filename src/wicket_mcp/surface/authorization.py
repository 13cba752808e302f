"""Our own authorization server over HTTP: authorization code with PKCE, for people without an identity provider.

    GET  /.well-known/oauth-authorization-server     what we can do; also with the path of `public_url` behind it
    GET  /oauth/authorize                            the consent page
    POST /oauth/authorize                            the decision made there
    GET  /oauth/signed-in                            where an OpenID provider sends the user after sign-in
    POST /oauth/token, /oauth/revoke                 tokens for a code or a refresh token; revocation
    POST /oauth/register                             dynamic registration

A wrong client or redirect address shows an error page and never redirects. Every other problem goes back to the client,
with its `state` and our `iss`. `identity/grants.py` decides what is approved and issued.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments, RateLimited, WicketError
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.clients import Clients
from wicket_mcp.identity.grants import ACCESS_LIFE, SESSION_LIFE, AuthorizationRequest, Grants, Issued, OAuthError
from wicket_mcp.identity.pages import find_cookie
from wicket_mcp.identity.providers import LIFE as VISIT_LIFE
from wicket_mcp.identity.providers import Providers, VisitFailed
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.surface.asgi import OnRejected
from wicket_mcp.surface.consent_page import consent, failure_page, go_on, known_scopes, leave, page_headers
from wicket_mcp.surface.dashboard.sessions import PERSON, UiSessions, cookie_of
from wicket_mcp.surface.dashboard.sessions import ROOT as DASHBOARD
from wicket_mcp.surface.front_door import OFFERED, SUPPORTED, FrontDoor
from wicket_mcp.surface.http import (
    BodyTooLarge,
    Disconnected,
    Headers,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    is_own_form,
    read_body,
    send_json,
)

METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZE, TOKEN, REVOKE, REGISTER = "/oauth/authorize", "/oauth/token", "/oauth/revoke", "/oauth/register"
SIGNED_IN = "/oauth/signed-in"
COOKIE = "__Host-wicket"
VISIT_COOKIE = "__Host-wicket-visit"
MAX_BODY = 64 * 1024
_ANYBODY: Headers = ((b"access-control-allow-origin", b"*"),)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response."""

    method: str
    base: str
    query: str
    headers: RequestHeaders
    receive: Receive
    send: Send
    client: str
    """The address that the request came from."""

    async def page(self, status: int, html: str, redirect_uri: str = "", cookie: str = "") -> None:
        extra: Headers = ((b"set-cookie", cookie.encode()),) if cookie else ()
        await self._send(status, (*page_headers(redirect_uri), *extra), html.encode())

    async def redirect(self, uri: str, fields: Mapping[str, str], cookie: str = "") -> None:
        """Send the browser back to a client, with our `iss`, so that the client can tell our answer from another
        server's.
        """
        mark = "&" if urlsplit(uri).query else "?"
        parameters = {name: value for name, value in {**fields, "iss": self.base}.items() if value}
        extra: Headers = ((b"set-cookie", cookie.encode()),) if cookie else ()
        location = (b"location", f"{uri}{mark}{urlencode(parameters)}".encode("ascii", "replace"))
        await self._send(303, (*page_headers(uri), location, *extra), b"")

    async def form(self) -> list[tuple[str, str]]:
        """The fields of a posted form. Raises OAuthError."""
        self.demand_type("application/x-www-form-urlencoded", OAuthError("invalid_request", "Send a form."))
        data = await read_body(self.receive, self.headers, MAX_BODY)
        return parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True)

    def demand_type(self, kind: str, problem: OAuthError) -> None:
        """Raises `problem` if the body is said to be something else."""
        if (self.headers.get(b"content-type") or "").partition(";")[0].strip().lower() != kind:
            raise problem

    def cookie(self, name: str = COOKIE) -> str:
        return find_cookie(self.headers.get(b"cookie") or "", name)

    async def _send(self, status: int, headers: Headers, body: bytes) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await self.send({"type": "http.response.body", "body": body})


class Authorization:
    """Mounted beside the front door. `paths` are where MCP is served.

    With `grants_access` off it only signs people in to the dashboard, with the providers.
    """

    authentication: Literal["open"] = "open"

    def __init__(
        self,
        door: FrontDoor,
        grants: Grants,
        clients: Clients,
        providers: Providers,
        paths: Collection[str],
        on_rejected: OnRejected,
        ui_sessions: UiSessions,
        *,
        grants_access: bool = True,
    ) -> None:
        self._providers = providers
        self._ui_sessions = ui_sessions
        self._grants_access = grants_access
        self._door = door
        self._on_rejected = on_rejected
        self._grants = grants
        self._clients = clients
        self._paths = paths

    def serves(self, path: str) -> bool:
        served = (METADATA, AUTHORIZE, TOKEN, REVOKE, REGISTER)
        return path == SIGNED_IN or (self._grants_access and self._canonical(path) in served)

    def _canonical(self, path: str) -> str:
        return METADATA if path == f"{METADATA}{self._door.public_path}" else path

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        query: str = scope.get("query_string", b"").decode("latin-1")
        address: str = (scope.get("client") or ("",))[0]
        exchange = Exchange(scope["method"], self._door.base(headers), query, headers, receive, send, address)
        path = self._canonical(scope["path"])
        allowed = {METADATA: ("GET", "HEAD"), AUTHORIZE: ("GET", "POST"), SIGNED_IN: ("GET",)}.get(path, ("POST",))
        if exchange.method not in allowed:
            await send_json(send, 405, {"error": f"Use {allowed[-1]}."}, ((b"allow", ", ".join(allowed).encode()),))
            return
        try:
            if path == METADATA:
                await send_json(send, 200, self._metadata(exchange.base), _ANYBODY)
            elif path in (AUTHORIZE, SIGNED_IN):
                await self._authorize(exchange, path)
            else:
                await self._answer(exchange, path)
        except Disconnected:
            return

    def _metadata(self, base: str) -> JsonObject:
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}{AUTHORIZE}",
            "token_endpoint": f"{base}{TOKEN}",
            "revocation_endpoint": f"{base}{REVOKE}",
            "registration_endpoint": f"{base}{REGISTER}",
            "scopes_supported": list(SUPPORTED),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }

    # The browser

    async def _authorize(self, exchange: Exchange, path: str) -> None:
        try:
            if path == SIGNED_IN:
                await self._return(exchange)
            elif exchange.method == "GET":
                await self._ask(exchange)
            else:
                await self._decide(exchange)
        except (OAuthError, BodyTooLarge) as problem:
            await exchange.page(400, failure_page(str(problem)))
        except WicketError as problem:
            await exchange.page(400, failure_page(problem.message))

    async def _ask(self, exchange: Exchange) -> None:
        """Show the consent page."""
        fields = _fields(parse_qsl(exchange.query, keep_blank_values=True))
        client = await self._clients.find(fields.get("client_id", ""), exchange.client)
        redirect_uri = client.redirect(fields.get("redirect_uri", ""))
        if redirect_uri is None:
            raise OAuthError("invalid_request", "The client may not be sent back to the address that it names.")
        try:
            scopes = self._check(fields, exchange.base)
        except OAuthError as problem:
            answer = {"error": problem.code, "error_description": str(problem), "state": fields.get("state", "")}
            await exchange.redirect(redirect_uri, answer)
            return
        request = AuthorizationRequest(
            client.id, client.name, redirect_uri, scopes, fields.get("state", ""), fields["code_challenge"]
        )
        cookie = exchange.cookie()
        holder = await self._grants.session(cookie)
        sealed = self._grants.seal(request, cookie)
        await exchange.page(200, self._consent(exchange, request, sealed, _display_holder(holder)), redirect_uri)

    def _consent(
        self, exchange: Exchange, request: AuthorizationRequest, sealed: str, signed_in: str = "", problem: str = ""
    ) -> str:
        action, offered = f"{self._door.public_path}{AUTHORIZE}", self._providers.offered
        return consent(request, sealed, signed_in, problem=problem, action=action, providers=offered)

    def _check(self, fields: Mapping[str, str], base: str) -> tuple[str, ...]:
        """The requested scopes. Raises OAuthError for an error that goes back to the client."""
        if fields.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "Only code is supported.")
        challenge = fields.get("code_challenge", "")
        if fields.get("code_challenge_method") != "S256" or len(challenge) != 43 or not challenge.isascii():
            raise OAuthError("invalid_request", "PKCE with S256 is required.")
        resource = fields.get("resource", "").rstrip("/")
        if resource and resource not in {base, *(f"{base}{path}" for path in self._paths)}:
            raise OAuthError("invalid_target", "That resource is not served here.")
        return known_scopes(fields.get("scope", "").split()) or OFFERED

    async def _decide(self, exchange: Exchange) -> None:
        """Carry out the decision made on the consent page. The form must come from our page, not from another port of
        this machine.
        """
        if not is_own_form(exchange.headers, exchange.base):
            raise OAuthError("invalid_request", "This form was sent by another page.")
        form = await exchange.form()
        fields = _fields([(name, value) for name, value in form if name != "scope"])
        cookie = exchange.cookie()
        request, mark = self._grants.open(fields.get("request", ""), cookie)
        decision = fields.get("decision", "")
        scopes = [value for name, value in form if name == "scope"]
        if decision in dict(self._providers.offered):
            url, visit = await self._providers.begin(decision, request, mark, scopes, f"{exchange.base}{SIGNED_IN}")
            cookie = _cookie(visit.browser, VISIT_COOKIE, VISIT_LIFE)
            await exchange.page(200, leave(url), cookie=cookie)  # a form's redirect may lead only to the client
            return
        if decision == "switch":
            html = self._consent(exchange, request, self._grants.seal(request, ""))
            await exchange.page(200, html, request.redirect_uri, _cookie("", life=0.0))
            return
        if decision != "approve":
            denied = {"error": "access_denied", "error_description": "Access was denied.", "state": request.state}
            await exchange.redirect(request.redirect_uri, denied)
            return
        holder, session = await self._grants.session(cookie), ""
        if holder is None:
            holder = await self._grants.sign_in(fields.get("credential", "").strip())
            if holder is None:
                self._on_rejected(exchange.client, f"consent to {request.client_name}: neither token nor API key")
                words = "That is neither this gateway’s token nor a valid API key."
                html = self._consent(exchange, request, fields["request"], problem=words)
                await exchange.page(401, html, request.redirect_uri)
                return
            session = "new"
        code = await self._grants.approve(request, mark, holder, scopes)
        if session:
            session = _cookie(await self._grants.open_session(holder[1]))
        await exchange.redirect(request.redirect_uri, {"code": code, "state": request.state}, session)

    # The dashboard

    @property
    def offered(self) -> Sequence[tuple[str, str]]:
        """The providers that people may sign in with, each with its display name."""
        return self._providers.offered

    async def visit(self, issuer: str, headers: RequestHeaders) -> tuple[str, str]:
        """Begin to sign in to the dashboard: the provider's address, and the cookie to send the browser there with.

        Raises OAuthError.
        """
        base = self._door.base(headers)
        request = AuthorizationRequest(DASHBOARD, "the dashboard", f"{base}{DASHBOARD}", SUPPORTED, "", "")
        url, visit = await self._providers.begin(issuer, request, b"", SUPPORTED, f"{base}{SIGNED_IN}")
        return url, _cookie(visit.browser, VISIT_COOKIE, VISIT_LIFE)

    async def person(self, secret: str) -> Principal | None:
        """The person whose sign-in has this secret, while it is valid."""
        holder = await self._grants.session(secret)
        return None if holder is None else holder[0]

    async def _open_dashboard(self, exchange: Exchange, digest: bytes) -> None:
        """A page of ours leads on: a browser sends our strict cookie only where our own page leads."""
        session = self._ui_sessions.begin(f"{PERSON}{await self._grants.open_session(digest)}")
        cookie = cookie_of(session, secure=exchange.base.startswith("https:"))
        await exchange.page(200, go_on(DASHBOARD, "the dashboard"), cookie=cookie)

    async def _return(self, exchange: Exchange) -> None:
        """The user comes back from a provider: what they approved before now goes to the client."""
        query = _fields(parse_qsl(exchange.query, keep_blank_values=True))
        try:
            visit, issuer, claims = await self._providers.finish(query, exchange.cookie(VISIT_COOKIE))
            try:
                holder = await self._grants.welcome(issuer, claims)
            except InvalidToken as problem:
                raise VisitFailed(visit, f"What the provider says about you is not accepted: {problem}.") from None
            if not any(holder[0].may(scope) for scope in visit.request.scopes):
                about = f"consent to {visit.request.client_name}: {holder[0].name} has no rights"
                self._on_rejected(exchange.client, about)
                raise VisitFailed(
                    visit, f"{_display_holder(holder)} is allowed nothing here: http.issuers.scopes says who is."
                )
        except VisitFailed as problem:
            if problem.visit.request.client == DASHBOARD:
                await exchange.page(401, failure_page(str(problem), f"{DASHBOARD}/sign-in"))
                return
            answer = {"error": problem.code, "error_description": str(problem), "state": problem.visit.request.state}
            await exchange.redirect(problem.visit.request.redirect_uri, answer)
            return
        request = visit.request
        if request.client == DASHBOARD:
            await self._open_dashboard(exchange, holder[1])
            return
        code = await self._grants.approve(request, visit.mark, holder, visit.scopes)
        session = _cookie(await self._grants.open_session(holder[1]))
        await exchange.redirect(request.redirect_uri, {"code": code, "state": request.state}, session)

    # The client

    async def _answer(self, exchange: Exchange, path: str) -> None:
        """Answer programs: JSON, with errors in OAuth's format."""
        status, body, extra = 200, None, _ANYBODY
        try:
            if path == REGISTER:
                status, body = 201, await self._register(exchange)
            elif path == TOKEN:
                body = _token_response(await self._token(_fields(await exchange.form())))
            else:
                fields = _fields(await exchange.form())
                await self._grants.revoke_token(fields.get("token", ""), fields.get("client_id", ""))
        except OAuthError as problem:
            status, body = 400, {"error": problem.code, "error_description": str(problem)}
        except BodyTooLarge as problem:
            status, body = 413, {"error": "invalid_request", "error_description": problem.message}
        except BadArguments as problem:
            code = "invalid_redirect_uri" if "redirect" in problem.message else "invalid_client_metadata"
            status, body = 400, {"error": code, "error_description": str(problem)}
        except RateLimited as problem:
            self._on_rejected(exchange.client, f"{path}: {problem.message}")
            status, body = 429, {"error": "temporarily_unavailable", "error_description": problem.message}
            extra = (*_ANYBODY, (b"retry-after", str(problem.retry_after).encode()))
        except WicketError as problem:  # such as a full disk
            status, body = 503, {"error": "temporarily_unavailable", "error_description": problem.message}
        await send_json(exchange.send, status, body, extra)

    async def _token(self, fields: Mapping[str, str]) -> Issued:
        client = fields.get("client_id", "")
        match fields.get("grant_type"):
            case "authorization_code":
                code, verifier = fields.get("code", ""), fields.get("code_verifier", "")
                return await self._grants.redeem(code, client, fields.get("redirect_uri", ""), verifier)
            case "refresh_token":
                scopes = fields.get("scope", "").split()
                return await self._grants.refresh(fields.get("refresh_token", ""), client, scopes)
            case _:
                raise OAuthError("unsupported_grant_type", "Use authorization_code or refresh_token.")

    async def _register(self, exchange: Exchange) -> JsonObject:
        exchange.demand_type("application/json", OAuthError("invalid_client_metadata", "Send a JSON object."))
        try:
            value: Any = decode(await read_body(exchange.receive, exchange.headers, MAX_BODY))
        except ValueError:
            raise OAuthError("invalid_client_metadata", "Send a JSON object.") from None
        client = await self._clients.register(as_object(value), exchange.client)
        return {
            "client_id": client.id,
            "client_id_issued_at": int(client.created_at),
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": " ".join(OFFERED),
        }


def _fields(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """The fields of a request. Raises OAuthError if a field other than `resource` appears twice."""
    names = [name for name, _ in pairs if name != "resource"]
    if len(names) != len(set(names)):
        raise OAuthError("invalid_request", "A parameter appears twice.")
    return dict(pairs)


def _token_response(issued: Issued) -> JsonObject:
    return {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": int(ACCESS_LIFE),
        "refresh_token": issued.refresh,
        "scope": " ".join(sorted(issued.scopes)),
    }


def _cookie(secret: str, name: str = COOKIE, life: float = SESSION_LIFE) -> str:
    return f"{name}={secret}; Path=/; Max-Age={int(life)}; HttpOnly; Secure; SameSite=Lax"


def _display_holder(holder: tuple[Principal, bytes] | None) -> str:
    if holder is None:
        return ""
    return "the owner" if holder[0].name == "local" else holder[0].label or holder[0].name
