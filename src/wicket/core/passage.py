"""One client request on its way to an upstream: dressed for the next hop, heard while it runs, its questions answered.

Everything a client asks of an upstream (a tool call, a prompt, a resource) goes through here. Progress and logs reach
the caller under its own token. What the upstream asks on the way is put to the caller: a legacy upstream asks while the
call runs; a modern one ends its answer with `input_required` and wants the request again with the replies, which a
modern client does itself and which is done here for all others.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from wicket.errors import ProtocolViolation, Unasked
from wicket.model import (
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    Caller,
    JsonObject,
    as_object,
    as_text,
)
from wicket.upstream.connection import Ears
from wicket.upstream.pool import Pool

ROUNDS = 10  # times that an upstream may ask for more input before its call is given up

_OUR_HOP = ("progressToken", META_VERSION, META_CLIENT_INFO, META_CAPABILITIES)
"""Keys of a request's `_meta` that speak about the hop to us and mean nothing to the upstream."""

NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
"""What a client must have declared to be asked this."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_tokens = itertools.count(1)


async def pass_on(
    pool: Pool,
    server: str,
    method: str,
    params: JsonObject,
    caller: Caller,
    meta: Mapping[str, Any],
    *,
    resume: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JsonObject:
    """Send the request and return the upstream's result, after all that it asked of the caller was answered."""
    dressed = _dressed(params, caller, meta)

    async def asked(question: str, about: JsonObject) -> JsonObject:
        return await ask(caller, server, question, about)

    ears = Ears(_Reporter(caller, meta.get("progressToken")), asked)
    given = {**dressed, **(resume or {})}
    for _ in range(ROUNDS):
        body = await pool.request(
            server,
            method,
            given,
            session=caller.session,
            ears=ears,
            headers=headers,
            capabilities=askable(caller.capabilities),
        )
        if body.get("resultType") != "input_required" or caller.resumes:
            return body
        given = {**dressed, **await _replies(body, caller, server)}
    raise ProtocolViolation(server, f"Server '{server}' asked for more input {ROUNDS} times; the call was given up.")


async def ask(caller: Caller, server: str, method: str, params: JsonObject) -> JsonObject:
    """Put an upstream's question to the caller's client. Raises Unasked when it cannot be asked that."""
    needed = NEEDS.get(method)
    if needed is None or needed not in caller.capabilities:
        what = f"asks for {needed}" if needed else f"asks {method}"
        raise Unasked(
            f"Server '{server}' {what}, which this client does not support.",
            hint="Use a client that does, or give the tool all it needs as arguments.",
        )
    return await caller.ask(method, params)


def askable(capabilities: JsonObject) -> JsonObject:
    """The part of a client's capabilities that an upstream may make use of through us."""
    return {name: capabilities[name] for name in NEEDS.values() if name in capabilities}


def wanted(level: str, least: str) -> bool:
    """Whether a log message of this level is for a client that wants `least` and above."""
    if least not in _LEVELS or level not in _LEVELS:
        return bool(least)
    return _LEVELS.index(level) >= _LEVELS.index(least)


def _dressed(params: JsonObject, caller: Caller, meta: Mapping[str, Any]) -> JsonObject:
    kept: JsonObject = {key: value for key, value in meta.items() if key not in _OUR_HOP}
    if meta.get("progressToken") is not None:
        kept["progressToken"] = next(_tokens)
    if caller.log_level and META_LOG_LEVEL not in kept:
        kept[META_LOG_LEVEL] = caller.log_level
    return {**params, "_meta": kept} if kept else params


async def _replies(body: JsonObject, caller: Caller, server: str) -> JsonObject:
    """The parameters that answer an upstream's `input_required`."""
    questions = as_object(body.get("inputRequests"))
    replies = {
        key: await ask(caller, server, as_text(as_object(one).get("method")), as_object(as_object(one).get("params")))
        for key, one in questions.items()
    }
    state = {"requestState": body["requestState"]} if "requestState" in body else {}
    return {"inputResponses": replies, **state}


class _Reporter:
    """Hands the caller what an upstream says on the way: progress under the caller's token, logs it wants."""

    def __init__(self, caller: Caller, token: Any) -> None:
        self._caller = caller
        self._token = token

    def __call__(self, method: str, params: JsonObject) -> None:
        if method == "notifications/progress":
            if self._token is not None:
                self._caller.notify(method, {**params, "progressToken": self._token})
        elif method != "notifications/message" or wanted(as_text(params.get("level")), self._caller.log_level):
            self._caller.notify(method, params)
