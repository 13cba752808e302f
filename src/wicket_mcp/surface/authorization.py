"""Our own authorization server over HTTP: authorization code with PKCE, for people without an identity provider.

    GET  /.well-known/oauth-authorization-server     what we can do
    GET  /oauth/authorize                            the consent page
    POST /oauth/authorize                            what somebody decided there
    GET  /oauth/signed-in                            where an OpenID provider sends whoever signed in with it
    POST /oauth/token, /oauth/revoke                 tokens for a code or a refresh token; their end
    POST /oauth/register                             dynamic registration

A wrong client or redirect address leads to a page and nowhere else; every other problem goes back to the client, with
its `state` and our `iss`. What is approved and issued is the business of `identity/grants.py`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments, WicketError
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.clients import Clients
from wicket_mcp.identity.grants import ACCESS_LIFE, SESSION_LIFE, AuthorizationRequest, Grants, Issued, OAuthError
from wicket_mcp.identity.providers import LIFE as VISIT_LIFE
from wicket_mcp.identity.providers import Providers, VisitFailed
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.surface.asgi import OnRejected
from wicket_mcp.surface.consent_page import consent, failed, known_scopes, leave, page_headers
from wicket_mcp.surface.front_door import OFFERED, SUPPORTED, FrontDoor
from wicket_mcp.surface.http import (
    BodyTooLarge,
    Disconnected,
    Headers,
    Receive,
    RequestHeaders,
    Scope,
    Send,
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
    """One request, and how it is answered."""

    method: str
    base: str
    query: str
    headers: RequestHeaders
    receive: Receive
    send: Send
    client: str
    """The address that it came from."""

    @property
    def origin(self) -> str:
        split = urlsplit(self.base)
        return f"{split.scheme}://{split.netloc}"

    async def page(self, status: int, html: str, redirect_uri: str = "", cookie: str = "") -> None:
        extra: Headers = ((b"set-cookie", cookie.encode()),) if cookie else ()
        await self._send(status, (*page_headers(redirect_uri), *extra), html.encode())

    async def redirect(self, uri: str, fields: Mapping[str, str], cookie: str = "") -> None:
        """Send the browser back to a client, with our `iss`, so that an answer of another server is told apart."""
        mark = "&" if urlsplit(uri).query else "?"
        given = {name: value for name, value in {**fields, "iss": self.base}.items() if value}
        extra: Headers = ((b"set-cookie", cookie.encode()),) if cookie else ()
        location = (b"location", f"{uri}{mark}{urlencode(given)}".encode("ascii", "replace"))
        await self._send(303, (*page_headers(uri), location, *extra), b"")

    async def form(self) -> list[tuple[str, str]]:
        """The fields of a posted form. Raises OAuthError."""
        kind = (self.headers.get(b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise OAuthError("invalid_request", "Send a form.")
        data = await read_body(self.receive, self.headers, MAX_BODY)
        return parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True)

    def cookie(self, name: str = COOKIE) -> str:
        try:
            found = SimpleCookie(self.headers.get(b"cookie") or "").get(name)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    async def _send(self, status: int, headers: Headers, body: bytes) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await self.send({"type": "http.response.body", "body": body})


class Authorization:
    """Mounted beside the front door. `paths` are where MCP is served."""

    authentication: Literal["open"] = "open"

    def __init__(
        self,
        door: FrontDoor,
        grants: Grants,
        clients: Clients,
        providers: Providers,
        paths: Collection[str],
        on_rejected: OnRejected,
    ) -> None:
        self._providers = providers
        self._door = door
        self._on_rejected = on_rejected
        self._grants = grants
        self._clients = clients
        self._paths = paths

    def serves(self, path: str) -> bool:
        return path in (METADATA, AUTHORIZE, SIGNED_IN, TOKEN, REVOKE, REGISTER)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        query: str = scope.get("query_string", b"").decode("latin-1")
        address: str = (scope.get("client") or ("",))[0]
        exchange = Exchange(scope["method"], self._door.base(headers), query, headers, receive, send, address)
        path: str = scope["path"]
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
            await exchange.page(400, failed(str(problem)))
        except WicketError as problem:
            await exchange.page(400, failed(problem.message))

    async def _ask(self, exchange: Exchange) -> None:
        """Show the consent page."""
        given = _fields(parse_qsl(exchange.query, keep_blank_values=True))
        client = await self._clients.find(given.get("client_id", ""))
        redirect_uri = client.redirect(given.get("redirect_uri", ""))
        if redirect_uri is None:
            raise OAuthError("invalid_request", "The client may not be sent back to the address that it names.")
        try:
            scopes = self._check(given, exchange.base)
        except OAuthError as problem:
            answer = {"error": problem.code, "error_description": str(problem), "state": given.get("state", "")}
            await exchange.redirect(redirect_uri, answer)
            return
        request = AuthorizationRequest(
            client.id, client.name, redirect_uri, scopes, given.get("state", ""), given["code_challenge"]
        )
        cookie = exchange.cookie()
        who = await self._grants.session(cookie)
        sealed = self._grants.seal(request, cookie)
        await exchange.page(200, self._consent(exchange, request, sealed, _shown(who)), redirect_uri)

    def _consent(
        self, exchange: Exchange, request: AuthorizationRequest, sealed: str, signed_in: str = "", problem: str = ""
    ) -> str:
        action, offered = _action(exchange.base), self._providers.offered
        return consent(request, sealed, signed_in, problem=problem, action=action, providers=offered)

    def _check(self, given: Mapping[str, str], base: str) -> tuple[str, ...]:
        """The scopes that are asked for. Raises OAuthError for what goes back to the client."""
        if given.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "Only code is supported.")
        challenge = given.get("code_challenge", "")
        if given.get("code_challenge_method") != "S256" or len(challenge) != 43 or not challenge.isascii():
            raise OAuthError("invalid_request", "PKCE with S256 is required.")
        resource = given.get("resource", "").rstrip("/")
        if resource and resource not in {base, *(f"{base}{path}" for path in self._paths)}:
            raise OAuthError("invalid_target", "That resource is not here.")
        return known_scopes(given.get("scope", "").split()) or OFFERED

    async def _decide(self, exchange: Exchange) -> None:
        """Do what somebody decided on the consent page: ours, and no page of another port of this machine."""
        if exchange.headers.get(b"origin") != exchange.origin:
            raise OAuthError("invalid_request", "This form was sent by another page.")
        form = await exchange.form()
        given = _fields([(name, value) for name, value in form if name != "scope"])
        cookie = exchange.cookie()
        request, mark = self._grants.open(given.get("request", ""), cookie)
        decision = given.get("decision", "")
        scopes = [value for name, value in form if name == "scope"]
        if decision in dict(self._providers.offered):
            url, visit = await self._providers.begin(decision, request, mark, scopes, f"{exchange.base}{SIGNED_IN}")
            cookie = _cookie(visit.browser, VISIT_COOKIE, VISIT_LIFE)
            await exchange.page(200, leave(url), cookie=cookie)  # a form's own redirect may lead to the client alone
            return
        if decision != "approve":
            denied = {"error": "access_denied", "error_description": "Access was denied.", "state": request.state}
            await exchange.redirect(request.redirect_uri, denied)
            return
        who, session = await self._grants.session(cookie), ""
        if who is None:
            who = await self._grants.sign_in(given.get("credential", "").strip())
            if who is None:
                self._on_rejected(exchange.client, f"consent to {request.client_name}: neither token nor API key")
                words = "That is neither this Wicket’s token nor an API key that counts."
                html = self._consent(exchange, request, given["request"], problem=words)
                await exchange.page(401, html, request.redirect_uri)
                return
            session = "new"
        code = await self._grants.approve(request, mark, who, scopes)
        if session:
            session = _cookie(await self._grants.open_session(who[1]))
        await exchange.redirect(request.redirect_uri, {"code": code, "state": request.state}, session)

    async def _return(self, exchange: Exchange) -> None:
        """Somebody comes back from a provider: what they had allowed before goes to the client now."""
        query = _fields(parse_qsl(exchange.query, keep_blank_values=True))
        try:
            visit, issuer, claims = await self._providers.finish(query, exchange.cookie(VISIT_COOKIE))
            try:
                who = await self._grants.welcome(issuer, claims)
            except InvalidToken as problem:
                raise VisitFailed(visit, f"What the provider says about you does not count: {problem}.") from None
            if not any(who[0].may(scope) for scope in visit.request.scopes):
                about = f"consent to {visit.request.client_name}: {who[0].name} has no rights"
                self._on_rejected(exchange.client, about)
                raise VisitFailed(visit, f"{_shown(who)} is allowed nothing here: http.issuers.scopes says who is.")
        except VisitFailed as problem:
            answer = {"error": problem.code, "error_description": str(problem), "state": problem.visit.request.state}
            await exchange.redirect(problem.visit.request.redirect_uri, answer)
            return
        request = visit.request
        code = await self._grants.approve(request, visit.mark, who, visit.scopes)
        session = _cookie(await self._grants.open_session(who[1]))
        await exchange.redirect(request.redirect_uri, {"code": code, "state": request.state}, session)

    # The client

    async def _answer(self, exchange: Exchange, path: str) -> None:
        """What programs ask: JSON, and errors as the protocol words them."""
        status, body = 200, None
        try:
            if path == REGISTER:
                status, body = 201, await self._register(exchange)
            elif path == TOKEN:
                body = _token_response(await self._token(_fields(await exchange.form())))
            else:
                given = _fields(await exchange.form())
                await self._grants.revoke_token(given.get("token", ""), given.get("client_id", ""))
        except OAuthError as problem:
            status, body = 400, {"error": problem.code, "error_description": str(problem)}
        except BodyTooLarge as problem:
            status, body = 413, {"error": "invalid_request", "error_description": problem.message}
        except BadArguments as problem:
            code = "invalid_redirect_uri" if "redirect" in problem.message else "invalid_client_metadata"
            status, body = 400, {"error": code, "error_description": str(problem)}
        await send_json(exchange.send, status, body, _ANYBODY)

    async def _token(self, given: Mapping[str, str]) -> Issued:
        client = given.get("client_id", "")
        match given.get("grant_type"):
            case "authorization_code":
                code, verifier = given.get("code", ""), given.get("code_verifier", "")
                return await self._grants.redeem(code, client, given.get("redirect_uri", ""), verifier)
            case "refresh_token":
                scopes = given.get("scope", "").split()
                return await self._grants.refresh(given.get("refresh_token", ""), client, scopes)
            case _:
                raise OAuthError("unsupported_grant_type", "Use authorization_code or refresh_token.")

    async def _register(self, exchange: Exchange) -> JsonObject:
        try:
            value: Any = decode(await read_body(exchange.receive, exchange.headers, MAX_BODY))
        except ValueError:
            raise OAuthError("invalid_client_metadata", "Send a JSON object.") from None
        client = await self._clients.register(as_object(value))
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
    """The fields of a request. Raises OAuthError where one appears twice; `resource` may."""
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


def _action(base: str) -> str:
    """Where the form goes, below the path at which a proxy may have us."""
    return f"{urlsplit(base).path.rstrip('/')}{AUTHORIZE}"


def _shown(who: tuple[Principal, bytes] | None) -> str:
    if who is None:
        return ""
    return "the owner" if who[0].name == "local" else who[0].label or who[0].name
