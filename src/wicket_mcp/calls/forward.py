"""The last layer: sends one request to an upstream, and passes its notifications and questions back.

Every request to an upstream (a call, a prompt, a resource, a listing) goes through here. Progress and logs reach the
caller under its own token. The upstream's questions go to the caller: a legacy upstream asks while the call runs; a
modern one ends its answer with `input_required` and expects the request again with the replies. A modern client repeats
the request itself; for all others it is repeated here.
"""

import itertools
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from wicket_mcp.config.model.server import is_web_address
from wicket_mcp.errors import (
    URL_ELICITATION_REQUIRED,
    Crashed,
    NeedsSignIn,
    Overloaded,
    ProtocolViolation,
    Refused,
    Unasked,
    Unavailable,
)
from wicket_mcp.extensions import APP_MARK, filter_forwarded, unknown
from wicket_mcp.model import (
    LOG_LEVELS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    Caller,
    JsonObject,
    as_list,
    as_object,
    as_text,
)
from wicket_mcp.request import Request, Result, Span
from wicket_mcp.telemetry.redact import mask_strings
from wicket_mcp.trust.display import LINKS, restrict_result
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks
from wicket_mcp.upstream.pool import Pool

ROUNDS = 10  # times that an upstream may ask for more input before its call fails

_OUR_HOP = frozenset({"progressToken", META_VERSION, META_CLIENT_INFO, META_CAPABILITIES, APP_MARK})
"""Keys of a request's `_meta` that concern only the hop to us and mean nothing to the upstream."""

NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""The capability that a client must have declared for each kind of question."""
_ASKED_BY = frozenset(NEEDS.values())


OnSent: TypeAlias = Callable[[str, float, JsonObject | None, BaseException | None], None]
"""Called with the method of a request to a server, its seconds, and its result or error."""


class Forward:
    """The innermost handler, and the only one that sends requests to the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._tokens = itertools.count(1)
        self._on_sent: OnSent | None = None
        """Called with the duration of every request, if set."""

    def tell(self, on_sent: OnSent) -> None:
        """Call `on_sent` after every request."""
        self._on_sent = on_sent

    async def __call__(self, request: Request) -> Result:
        """The upstream's result, after the caller has answered all its questions."""
        caller, server, meta = request.caller, request.server, request.meta
        dressed = self._dress(request) if meta or caller.log_level else request.params
        if request.notification:
            able = filter_forwarded(caller.capabilities)
            await self._pool.notify(server, request.method, dressed, caller.principal, caller.session, able)
            return Result({}, request)
        token = meta.get("progressToken")
        # A caller that wants no messages and cannot be asked needs no callbacks.
        able = caller.capabilities
        unasked = not able or (_ASKED_BY.isdisjoint(able) and not ("extensions" in able and unknown(able)))
        silent = token is None and unasked and not caller.log_level
        callbacks = NO_CALLBACKS
        if not silent:
            reporter = _Reporter(caller, server, token, request.span)
            callbacks = Callbacks(reporter.notify, reporter.ask)
        params = {**dressed, **request.resume} if request.resume else dressed
        for attempt in range(ROUNDS):
            body = await self._send(request, params, callbacks, sent_before=attempt > 0)
            if body.get("resultType") != "input_required":
                return Result(restrict_result(body) if _has_links(body) else body, request)
            if caller.resumes:
                return Result(_name_asker(body, caller, server), request)
            params = {**dressed, **await _replies(body, caller, server)}
        raise ProtocolViolation(
            server, f"Server '{server}' asked for more input {ROUNDS} times; the call was given up."
        )

    async def set_log_level(self, request: Request) -> Result:
        """The innermost handler of `logging/setLevel`, which concerns all servers."""
        await self._pool.set_log_level(request.name)
        return Result({}, request)

    async def _send(
        self, request: Request, params: JsonObject, callbacks: Callbacks, *, sent_before: bool
    ) -> JsonObject:
        caller, body = request.caller, None
        started = time.perf_counter()
        try:
            body = await self._pool.request(
                request.server,
                request.method,
                params,
                principal=caller.principal,
                session=caller.session,
                callbacks=callbacks,
                headers=request.headers,
                capabilities=(
                    filter_forwarded(caller.capabilities, tasks=request.declare_tasks)
                    if caller.capabilities or request.declare_tasks
                    else None
                ),
                timeout=request.timeout,
            )
            return body
        except Refused as refusal:
            return _visits(refusal, caller, request.server)
        except (Unavailable, Overloaded, NeedsSignIn) as problem:
            if not sent_before:
                raise
            # An earlier round was sent, so a fallback or a retry is not allowed.
            raise Crashed(
                request.server, problem.message, hint="It was asked once already and may have acted."
            ) from None
        finally:
            seconds = time.perf_counter() - started
            request.span.upstream += seconds
            if self._on_sent is not None:
                self._on_sent(request.method, seconds, body, sys.exception())

    def _dress(self, request: Request) -> JsonObject:
        """The parameters, with the part of the client's `_meta` that is meant for the upstream."""
        caller, meta = request.caller, request.meta
        level = "" if request.notification else caller.log_level
        passed: JsonObject = {key: value for key, value in meta.items() if key not in _OUR_HOP}
        if meta.get("progressToken") is not None:
            passed["progressToken"] = next(self._tokens)
        if level and META_LOG_LEVEL not in passed:
            passed[META_LOG_LEVEL] = level
        return {**request.params, "_meta": passed} if passed else request.params


async def ask(caller: Caller, server: str, method: str, params: JsonObject, *, from_us: bool = False) -> JsonObject:
    """Ask the caller's client an upstream's question, or one of ours. Raises Unasked if it cannot be asked."""
    _check_askable(caller, server, method, params)
    asker = "" if from_us else server
    return await caller.ask(method, _render_question(method, params, asker, modern=caller.resumes))


def is_wanted(level: str, least: str) -> bool:
    """Whether a client that wants `least` and above gets a log message of this level."""
    if least not in LOG_LEVELS or level not in LOG_LEVELS:
        return bool(least)
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def _check_askable(caller: Caller, server: str, method: str, params: Any) -> None:
    """Raises Unasked if the client did not declare that it can be asked this.

    A method unknown to Wicket may belong to an unknown extension: a client with such an extension decides itself.
    """
    needed = NEEDS.get(method, "")
    action = f"asks for {needed}" if needed else f"asks {method}"
    can = needed in caller.capabilities if needed else bool(unknown(caller.capabilities))
    if can and needed == "elicitation":
        modes, mode = as_object(caller.capabilities[needed]), as_object(params).get("mode", "form")
        can = mode in modes or (mode == "form" and "url" not in modes)  # no mode named means forms
        action = f"asks for {needed} by {mode}" if not can else action
        if mode == "url":
            _check_page(server, as_object(params).get("url"))
    if not can:
        raise Unasked(
            f"Server '{server}' {action}, which this client does not support.",
            hint="Use a client that does, or give the tool all it needs as arguments.",
        )


def _check_page(server: str, address: Any) -> None:
    """Raises Unasked for an address that is not a web page: a client may open whatever it gets."""
    if not isinstance(address, str) or not is_web_address(address):
        raise Unasked(
            f"Server '{server}' wants a page opened whose address does not begin with http:// or https://.",
            hint="It was not shown to the user. Tell the server's author.",
        )


def _render_question(method: str, params: JsonObject, server: str, *, modern: bool) -> JsonObject:
    """A question in the format of the client's era: only the legacy era gives a page visit an id, and requires it.

    It names the server that wants a page visited: people know servers, not addresses.
    """
    if method != "elicitation/create" or params.get("mode") != "url":
        return params
    message = as_text(params.get("message"))
    named = {**params, "message": f"Server '{server}' asks: {message}" if server else message}
    if modern:
        return {key: value for key, value in named.items() if key != "elicitationId"}
    return {"elicitationId": secrets.token_urlsafe(16), **named}


def _name_asker(body: JsonObject, caller: Caller, server: str) -> JsonObject:
    """An `input_required` for a client that answers it itself. Raises Unasked if it cannot."""
    questions = {key: as_object(question) for key, question in as_object(body.get("inputRequests")).items()}
    for question in questions.values():
        _check_askable(caller, server, as_text(question.get("method")), question.get("params"))
    worded = {
        key: {
            **question,
            "params": _render_question(question["method"], as_object(question["params"]), server, modern=True),
        }
        if "params" in question
        else question
        for key, question in questions.items()
    }
    return {**body, "inputRequests": worded} if worded else body


def _has_links(body: JsonObject) -> bool:
    content: Any = body.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else ()
    return any(isinstance(block, dict) and cast("JsonObject", block).get("type") in LINKS for block in blocks)


def _visits(refusal: Refused, caller: Caller, server: str) -> JsonObject:
    """Turn a legacy error that requires page visits into questions for a modern client, which then tries again.

    Raises the error if it is a different one, or if the client cannot be asked this way.
    """
    pages = [
        as_object(elicitation) for elicitation in as_list(as_object(refusal.error.get("data")).get("elicitations"))
    ]
    able = caller.resumes and "url" in as_object(caller.capabilities.get("elicitation"))
    if refusal.rpc_code != URL_ELICITATION_REQUIRED or not pages or not able:
        raise refusal
    for page in pages:
        _check_page(server, page.get("url"))
    ask = "elicitation/create"
    requests = {
        f"page{n}": {"method": ask, "params": _render_question(ask, {"mode": "url", **page}, server, modern=True)}
        for n, page in enumerate(pages, 1)
    }
    return {"resultType": "input_required", "inputRequests": requests}


async def _replies(body: JsonObject, caller: Caller, server: str) -> JsonObject:
    """The parameters that answer an upstream's `input_required`."""
    questions = as_object(body.get("inputRequests"))
    replies = {
        key: await ask(
            caller, server, as_text(as_object(question).get("method")), as_object(as_object(question).get("params"))
        )
        for key, question in questions.items()
    }
    state = {"requestState": body["requestState"]} if "requestState" in body else {}
    return {"inputResponses": replies, **state}


class _Reporter:
    """Passes an upstream's messages to the caller: progress under its token, the logs it wants, questions."""

    __slots__ = ("_caller", "_server", "_span", "_token")

    def __init__(self, caller: Caller, server: str, token: Any, span: Span) -> None:
        self._span = span
        self._caller = caller
        self._server = server
        self._token = token

    def notify(self, method: str, params: JsonObject) -> None:
        if method == "notifications/progress":
            self._span.progress = params
            if self._token is not None:
                self._caller.notify(method, {**params, "progressToken": self._token})
        elif method != "notifications/message":
            self._caller.notify(method, params)
        elif is_wanted(as_text(params.get("level")), self._caller.log_level):
            self._caller.notify(method, mask_strings(params))

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await ask(self._caller, self._server, method, params)
