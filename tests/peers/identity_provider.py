"""An identity provider on a real socket: metadata, keys that can be changed, tokens as the test wants them.

Whoever comes to its page is `person`, and signed in at once, for the client `wicket`. The faults are small classes:
`AnswersHtml`, `NeverAnswers`. One that is down is one that was left.
"""

import asyncio
import base64
import hashlib
import json
import time
import warnings
from collections import Counter
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jws, jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

AnyKey = RSAKey | ECKey | OKPKey | OctKey


class IdentityProvider:
    """Enter it; then `issuer` is its address."""

    path = ""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.rsa = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.keys: list[AnyKey] = [self.rsa]
        self.marks: dict[str, dict[str, Any]] = {}
        """What the document says of a key besides itself, by its name."""
        self.opaque: dict[str, dict[str, Any]] = {}
        self.introspected_by = ""
        """How whoever asked last about a token authenticated."""
        self.metadata: dict[str, Any] = {}
        self.person: dict[str, Any] = {"sub": "ann", "email": "ann@example.com", "groups": ["staff"]}
        self.gone = ""
        """A path that is not there any more."""
        self.id_token: dict[str, Any] = {}
        """Claims of the next ID tokens that are other than they should be."""
        self.redirect: dict[str, str] = {}
        """Parameters of the next redirects that are other than they should be."""
        self.questions: list[dict[str, str]] = []
        """What browsers brought to its page."""
        self._codes: dict[str, dict[str, str]] = {}
        self._runner: web.AppRunner | None = None
        self.issuer = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        self.issuer = f"http://127.0.0.1:{port}{self.path}"
        origin = f"http://127.0.0.1:{port}"
        self.metadata = {
            "issuer": self.issuer,
            "jwks_uri": f"{origin}/keys",
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "scopes_supported": ["openid", "email", "groups"],
        }
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        return await self.answer(request)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == self.gone:
            return web.Response(status=410)
        if request.path == f"{self.path}/.well-known/openid-configuration":
            return web.json_response(self.metadata)
        if request.path in ("/keys", "/moved"):
            marks = [{"kid": key.kid, **self.marks.get(key.kid or "", {})} for key in self.keys]
            shown = [{**key.as_dict(private=False), **mark} for key, mark in zip(self.keys, marks, strict=True)]
            return web.json_response({"keys": shown})
        if request.path == "/introspect":
            form = await request.post()
            self.introspected_by = request.headers.get("Authorization", "")
            return web.json_response(self.opaque.get(str(form["token"]), {"active": False}))
        if request.path == "/authorize":
            return self._authorize(dict(request.query))
        if request.path == "/token":
            return self._redeem(request, {name: str(value) for name, value in (await request.post()).items()})
        return web.Response(status=404)

    def _authorize(self, question: dict[str, str]) -> web.Response:
        code = f"code-{len(self.questions)}"
        self.questions.append(question)
        self._codes[code] = question
        query = {"code": code, "state": question["state"], "iss": self.issuer, **self.redirect}
        raise web.HTTPFound(f"{question['redirect_uri']}?{urlencode({k: v for k, v in query.items() if v})}")

    def _redeem(self, request: web.Request, form: dict[str, str]) -> web.Response:
        question = self._codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == question["code_challenge"]
        assert form["redirect_uri"] == question["redirect_uri"]
        assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'wicket:hush').decode()}"
        claims: dict[str, Any] = {
            "aud": "wicket",
            "nonce": question["nonce"],
            "scope": None,
            **self.person,
            **self.id_token,
        }
        return web.json_response({"access_token": "unused", "id_token": self.token(header={"typ": "JWT"}, **claims)})

    def claims(self, **changed: Any) -> dict[str, Any]:
        """A token's usual content for somebody; a claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.issuer, "sub": "ann", "iat": now, "exp": now + 300, "scope": "discover invoke"}
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def token(self, key: AnyKey | None = None, header: dict[str, Any] | None = None, **changed: Any) -> str:
        key = key or self.keys[0]
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}[key.key_type]
        head = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # the name EdDSA is deprecated, and what issuers write
            if "typ" not in head:  # jwt.encode would add one
                content = json.dumps(self.claims(**changed)).encode()
                return jws.serialize_compact(head, content, key, algorithms=[head["alg"]])
            return jwt.encode(head, self.claims(**changed), key, algorithms=[head["alg"]])


class AnswersHtml(IdentityProvider):
    """A page for people, with status 200, as a proxy in the way gives it."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Please sign in to the guest network</html>", content_type="text/html")


class NeverAnswers(IdentityProvider):
    """Takes the request, and nothing comes."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError
