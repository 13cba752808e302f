"""What an HTTP status means for a call: which side failed, and whether the call may be sent again.

A 4xx says that nothing was done, so it is Unavailable; a 5xx may come from a proxy in front of a server that did act,
so it is Crashed. A JSON-RPC error in the body is kept as it is: era negotiation depends on it.
"""

import re
from datetime import UTC, datetime
from http import HTTPStatus

from wicket_mcp.codec import decode
from wicket_mcp.errors import METHOD_NOT_FOUND, Crashed, ProtocolViolation, Refused, Unavailable, UpstreamError
from wicket_mcp.model import JsonObject, as_object, as_text
from wicket_mcp.telemetry.log import clean
from wicket_mcp.upstream.deadline import LONGEST_WAIT
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED, Answer, Endpoint

ERROR_BODY = 1024 * 1024
_SHOWN = 200
_NO_SESSION = re.compile(
    r"(bad request: )?(no valid session id( provided)?|invalid( or missing)? session id|session not found)\.?",
    re.IGNORECASE,
)
"""What servers built with the SDKs, or from their widely copied examples, answer with 400 after a restart."""


class HttpRefused(Unavailable):
    """Rejected by its HTTP status before anything was done."""

    def __init__(self, server: str, message: str, *, status: int, hint: str, wait: float | None = None) -> None:
        super().__init__(server, message, hint=hint)
        self.status = status
        self.retry_after = wait


class HttpFailed(Crashed):
    """Failed by its HTTP status; whether the server acted is unknown."""

    def __init__(self, server: str, message: str, *, status: int, hint: str) -> None:
        super().__init__(server, message, hint=hint)
        self.status = status


class HttpRpcError(Refused):
    """A JSON-RPC error that came with an HTTP error status."""

    def __init__(self, server: str, error: JsonObject, *, status: int) -> None:
        super().__init__(server, error)
        self.status = status


def http_status(error: UpstreamError) -> int | None:
    """The HTTP status behind `error`, if there is one."""
    return error.status if isinstance(error, HttpRefused | HttpFailed | HttpRpcError) else None


def lost_session(error: UpstreamError) -> bool:
    """Whether `error`, the answer to a request with a session id, says that this session no longer exists."""
    status = http_status(error)
    if status == HTTPStatus.NOT_FOUND:
        return not (isinstance(error, Refused) and error.rpc_code == METHOD_NOT_FOUND)
    if status != HTTPStatus.BAD_REQUEST or not isinstance(error, Refused):
        return False
    return _NO_SESSION.fullmatch(as_text(error.error.get("message")).strip()) is not None  # a tool may speak of others


def refused_for_good(error: UpstreamError) -> bool:
    """Whether repeating the same request is pointless."""
    status = http_status(error) or 0
    waiting_helps = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    return (400 <= status < 500 and not waiting_helps) or status == HTTPStatus.NOT_IMPLEMENTED


async def refusal(answer: Answer) -> UpstreamError:
    """The error for an answer with status 400 or above. Reads its body and closes it."""
    try:
        body = await answer.body(ERROR_BODY)
    except UpstreamError:
        body = b""
    finally:
        answer.close()
    status, endpoint = answer.status, answer.endpoint
    error = _rpc_error(body)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _forbidden(answer, error)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        wait = _retry_after(answer.header("Retry-After"))
        if wait is not None or error is None:
            return _busy(answer, wait)
    if error is not None:
        return HttpRpcError(endpoint.server, error, status=status)
    message = _describe(answer, excerpt(body, endpoint))
    if status < 500 and status != HTTPStatus.REQUEST_TIMEOUT:
        hint = "Check that its URL is the address of its MCP endpoint."
        return HttpRefused(endpoint.server, message, status=status, hint=hint)
    return HttpFailed(endpoint.server, message, status=status, hint=MAY_HAVE_ACTED)


def violation(endpoint: Endpoint, fault: str, body: bytes = b"") -> ProtocolViolation:
    """The error for an answer that is not MCP, with the beginning of its body."""
    text = excerpt(body, endpoint)
    message = f"Server '{endpoint.server}' at {endpoint.shown} {fault}{text and f': {text}'}."
    hint = "Check that its URL is the address of its MCP endpoint; if it is, the server has a defect."
    return ProtocolViolation(endpoint.server, message, hint=hint)


def excerpt(body: bytes, endpoint: Endpoint) -> str:
    """The beginning of `body`, safe to show: one line, no control characters, none of our secrets."""
    text = " ".join(clean(body[: 20 * _SHOWN].decode("utf-8", "replace")).split())
    return endpoint.redact(text, _SHOWN)


def _forbidden(answer: Answer, error: JsonObject | None) -> HttpRefused:
    endpoint = answer.endpoint
    text = excerpt(str(error.get("message", "")).encode("utf-8", "replace"), endpoint) if error else ""
    hint = "Check the headers (token, key) or the auth section configured for this server."
    if answer.status == HTTPStatus.UNAUTHORIZED:
        names_oauth = "resource_metadata" in answer.challenges
        words = (
            "It wants OAuth: leave an Authorization header out, and run" if names_oauth else "If it wants OAuth, try"
        )
        hint = f"{hint} {words}: wicket login {endpoint.server}"
    return HttpRefused(endpoint.server, _describe(answer, text), status=answer.status, hint=hint)


def _busy(answer: Answer, wait: float | None) -> HttpRefused:
    hint = "Try again later."
    if wait is not None:
        wait = min(wait, LONGEST_WAIT)  # what we keep, and say
        hint = f"It asks for a pause of {wait:.0f} seconds; try again then."
    return HttpRefused(answer.endpoint.server, _describe(answer, ""), status=answer.status, hint=hint, wait=wait)


def _describe(answer: Answer, text: str) -> str:
    try:
        phrase = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = ""
    endpoint = answer.endpoint
    message = f"Server '{endpoint.server}' at {endpoint.shown} answered HTTP {answer.status}{phrase}"
    return f"{message}: {text}." if text else f"{message}."


def _retry_after(value: str) -> float | None:
    if value.isascii() and value.isdigit():
        return float(value[:9])
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  (few servers name a date)

    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _rpc_error(body: bytes) -> JsonObject | None:
    try:
        message = as_object(decode(body))
    except ValueError:
        return None
    return as_object(message.get("error")) or None if "jsonrpc" in message else None
