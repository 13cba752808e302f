"""A remote MCP server that wants a token, and the authorization server that gives them, on one real socket.

Whoever comes to the authorization page is `account`, and consents at once. Every request is kept in `received`. Faults
are small subclasses: one named thing that goes wrong.
"""

import asyncio
import base64
import hashlib
import itertools
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from aiohttp import web
from multidict import CIMultiDict

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import MODERN_VERSION, JsonObject, as_object


@dataclass(frozen=True)
class Received:
    """One request as it came: everything that a secret could be in."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def whole(self) -> str:
        return f"{self.path} {self.headers} {self.body}"

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ").removeprefix("DPoP ")


@dataclass
class Issued:
    """An access token: whose it is, and for what."""

    account: str
    scope: str


@dataclass
class Protected:
    """Both servers, and everything that they know."""

    account: str = "ann"
    """Who the next person at the authorization page is."""
    lifetime: int = 3600
    scope: str = ""
    """What a token needs; without it, none in particular."""
    received: list[Received] = field(default_factory=list[Received])
    tokens: dict[str, Issued] = field(default_factory=dict[str, Issued])
    refresh_tokens: dict[str, Issued] = field(default_factory=dict[str, Issued])
    codes: dict[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])
    asked_scopes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._site: web.TCPSite | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        @web.middleware
        async def keep(request: web.Request, handler: Any) -> web.StreamResponse:
            self.received.append(Received(str(request.rel_url), dict(request.headers), (await request.read()).decode()))
            response: web.StreamResponse = await handler(request)
            response.force_close()  # so that it is not there at all once it has stopped
            return response

        app = web.Application(middlewares=[keep])
        app.router.add_get("/.well-known/oauth-protected-resource/mcp", self.resource_metadata)
        app.router.add_get("/.well-known/oauth-authorization-server", self.issuer_metadata)
        app.router.add_post("/register", self.register)
        app.router.add_get("/authorize", self.authorize)
        app.router.add_post("/token", self.token)
        app.router.add_post("/mcp", self.mcp)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def origin(self) -> str:
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def seen(self, path: str) -> list[Received]:
        return [one for one in self.received if one.path.partition("?")[0] == path]

    # The authorization server

    async def resource_metadata(self, request: web.Request) -> web.Response:
        return web.json_response({"resource": self.url, "authorization_servers": [self.origin]})

    def metadata(self) -> JsonObject:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    async def issuer_metadata(self, request: web.Request) -> web.Response:
        return web.json_response(self.metadata())

    async def register(self, request: web.Request) -> web.Response:
        client = f"client-{next(self._numbers)}"
        return web.json_response({"client_id": client, "token_endpoint_auth_method": "none"}, status=201)

    def redirect_parameters(self, request: web.Request, code: str) -> dict[str, str]:
        return {"code": code, "state": request.query["state"], "iss": self.origin}

    async def authorize(self, request: web.Request) -> web.Response:
        code = f"code-{next(self._numbers)}"
        self.asked_scopes.append(request.query.get("scope", ""))
        self.codes[code] = (self.account, request.query["code_challenge"], request.query.get("scope", ""))
        query = urlencode(self.redirect_parameters(request, code))
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{query}")

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["grant_type"] == "authorization_code":
            account, challenge, scope = self.codes.pop(str(form["code"]))
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
            assert form["resource"] == self.url
            return web.json_response(self.issue(account, scope))
        issued = self.refresh_tokens.pop(str(form["refresh_token"]), None)  # each works once
        if issued is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self.issue(issued.account, issued.scope))

    def issue(self, account: str, scope: str) -> JsonObject:
        number = next(self._numbers)
        token, refresh = f"canary-{account}-access-{number}", f"canary-{account}-refresh-{number}"
        self.tokens[token] = self.refresh_tokens[refresh] = Issued(account, scope)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": refresh}

    # The MCP server

    async def mcp(self, request: web.Request) -> web.Response:
        message = as_object(decode(await request.read()))
        issued = self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer ").removeprefix("DPoP "))
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if issued is None:
            return web.Response(status=401, headers={"WWW-Authenticate": f"Bearer {metadata}"})
        if self.scope and self.scope not in issued.scope.split() and message.get("method") == "tools/call":
            header = f'Bearer error="insufficient_scope", scope="{self.scope}", {metadata}'
            return web.Response(status=403, headers={"WWW-Authenticate": header})
        if "id" not in message:
            return web.Response(status=202)
        outcome = self.answer(str(message["method"]), as_object(message.get("params")), issued.account)
        return web.Response(
            body=encode({"jsonrpc": "2.0", "id": message["id"], **outcome}), content_type="application/json"
        )

    def answer(self, method: str, params: JsonObject, account: str) -> JsonObject:
        match method:
            case "server/discover":
                return {"result": {"supportedVersions": [MODERN_VERSION], "capabilities": {"tools": {}}}}
            case "tools/list":
                tool = {
                    "name": "whoami",
                    "description": "Says whose account is used.",
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": True},
                }
                return {"result": {"tools": [tool], "resultType": "complete"}}
            case "tools/call":
                content = [{"type": "text", "text": account}]
                return {"result": {"content": content, "resultType": "complete"}}
            case _:
                return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


class WrongIssuer(Protected):
    """Its metadata says that it is another one."""

    def metadata(self) -> JsonObject:
        return {**super().metadata(), "issuer": "https://other.example"}


class NoS256(Protected):
    """It does not protect codes."""

    def metadata(self) -> JsonObject:
        return {key: value for key, value in super().metadata().items() if not key.startswith("code_challenge")}


class HtmlAnswer(Protected):
    """Its token endpoint answers with a page."""

    async def token(self, request: web.Request) -> web.Response:
        return web.Response(text="<html>Sorry</html>", content_type="text/html")


class AnswersForAnother(Protected):
    """Its redirect names another issuer, as an attacker's would."""

    def redirect_parameters(self, request: web.Request, code: str) -> dict[str, str]:
        return {**super().redirect_parameters(request, code), "iss": f"{self.origin}/"}


class Refuses(Protected):
    """Nobody may sign in."""

    def redirect_parameters(self, request: web.Request, code: str) -> dict[str, str]:
        return {"error": "access_denied", "state": request.query["state"], "iss": self.origin}


class RefusesForAnother(Protected):
    """An error that names another issuer: somebody else ends the sign-in, or wants to learn what is said of it."""

    def redirect_parameters(self, request: web.Request, code: str) -> dict[str, str]:
        return {"error": "access_denied", "state": request.query["state"], "iss": "https://other.example"}


class NamesNobody(Protected):
    """It promises to name itself in every redirect, and does not."""

    def redirect_parameters(self, request: web.Request, code: str) -> dict[str, str]:
        return {"code": code, "state": request.query["state"]}


class HtmlMetadata(Protected):
    """A page for people where its metadata should be."""

    async def issuer_metadata(self, request: web.Request) -> web.Response:
        return web.Response(text="<html>Sorry</html>", content_type="text/html")


class MetadataDown(Protected):
    """Its metadata cannot be read now."""

    async def issuer_metadata(self, request: web.Request) -> web.Response:
        return web.Response(status=503)


class BindsToNoKey(Protected):
    """It gives a token that is bound to a key, and nobody showed it one."""

    def issue(self, account: str, scope: str) -> JsonObject:
        return {**super().issue(account, scope), "token_type": "DPoP"}


class LastsForever(Protected):
    """Its tokens last longer than any number."""

    def issue(self, account: str, scope: str) -> JsonObject:
        return {**super().issue(account, scope), "expires_in": "9" * 400}


class ForgetsClients(Protected):
    """It knows the clients that registered, until `clients` is cleared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clients: set[str] = set()

    async def register(self, request: web.Request) -> web.Response:
        response = await super().register(request)
        self.clients.add(as_object(decode(response.body or b"{}"))["client_id"])  # pyright: ignore[reportArgumentType]
        return response

    async def authorize(self, request: web.Request) -> web.Response:
        if request.query["client_id"] not in self.clients:
            return web.Response(status=400, text="This client is unknown.")  # it must not redirect
        return await super().authorize(request)

    async def token(self, request: web.Request) -> web.Response:
        if str((await request.post())["client_id"]) not in self.clients:
            return web.json_response({"error": "invalid_client"}, status=401)
        return await super().token(request)


class WantsEver(Protected):
    """No token is ever enough for a call."""

    async def mcp(self, request: web.Request) -> web.Response:
        self.scope = f"scope-{len(self.asked_scopes)}"
        return await super().mcp(request)


class EndsReplayed(Protected):
    """A refresh token that comes a second time ends the sign-in, as OAuth's best practice wants it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.used: set[str] = set()

    async def token(self, request: web.Request) -> web.Response:
        presented = str((await request.post()).get("refresh_token", ""))
        if presented in self.used:
            self.tokens.clear()
            self.refresh_tokens.clear()
        if presented:
            self.used.add(presented)
        await asyncio.sleep(0)  # others may come meanwhile
        return await super().token(request)


class SlowToken(Protected):
    """Its token endpoint answers only when it is allowed to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def token(self, request: web.Request) -> web.Response:
        self.asked.set()
        await self.released.wait()
        return await super().token(request)


class ProviderDown(Protected):
    """Its token endpoint fails while `down` is set."""

    down = False

    async def token(self, request: web.Request) -> web.Response:
        return web.Response(status=503) if self.down else await super().token(request)


class SaysNothing(Protected):
    """It rejects a request without a token, and does not say how to get one."""

    async def mcp(self, request: web.Request) -> web.Response:
        response = await super().mcp(request)
        return web.Response(status=401) if response.status == 401 else response


class AcceptsNothing(Protected):
    """It gives and renews tokens, and accepts none while `closed` is set."""

    closed = False

    async def mcp(self, request: web.Request) -> web.Response:
        issued = dict(self.tokens)
        if self.closed:
            self.tokens.clear()
        response = await super().mcp(request)
        self.tokens.update(issued)
        return response


class Moves(Protected):
    """It names another authorization server, which is `other`, once that is set."""

    other: Protected | None = None

    async def resource_metadata(self, request: web.Request) -> web.Response:
        origin = self.origin if self.other is None else self.other.origin
        return web.json_response({"resource": self.url, "authorization_servers": [origin]})


class IgnoresResource(Protected):
    """Its authorization server gives a token, good for its own server, whatever the token is asked for."""

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        account, _, scope = self.codes.pop(str(form["code"]))
        return web.json_response(self.issue(account, scope))


class OffersSeveral(Protected):
    """It takes passwords too, and says so first, in a line of its own."""

    async def mcp(self, request: web.Request) -> web.Response:
        response = await super().mcp(request)
        if "WWW-Authenticate" not in response.headers:
            return response
        several = [("WWW-Authenticate", 'Basic realm="people"'), *response.headers.items()]
        return web.Response(status=response.status, headers=CIMultiDict(several))


class ChallengesAtLength(Protected):
    """Lines without a meaning stand before what its rejection means, and behind it."""

    before, behind = 0, 0

    async def mcp(self, request: web.Request) -> web.Response:
        response = await super().mcp(request)
        if "WWW-Authenticate" not in response.headers:
            return response
        line = ("WWW-Authenticate", "_" * 500)
        lines = [*[line] * self.before, *response.headers.items(), *[line] * self.behind]
        return web.Response(status=response.status, headers=CIMultiDict(lines))


class RefusesWith200(Protected):
    """It answers like GitHub: an error has status 200, and a refresh token that has ended an error of its own."""

    async def token(self, request: web.Request) -> web.Response:
        answer = await super().token(request)
        document = as_object(decode(answer.body or b"{}"))  # pyright: ignore[reportArgumentType]
        if document.get("error") == "invalid_grant":
            return web.json_response({"error": "bad_refresh_token", "error_description": "It has expired."})
        del document["token_type"]
        return web.json_response(document)
