"""Every error that crosses a module boundary, by its cause and by whether a retry can help.

    WicketError                      code              retry?
    ├── CallerError                                            the caller must change something
    │   ├── ConfigError              config            no      names file, line, key and what was expected
    │   ├── BadArguments             bad_arguments     no      names field, expectation and signature
    │   ├── UnknownName              unknown_name      no      names the nearest three
    │   ├── AmbiguousName            ambiguous_name    no      lists the candidates
    │   ├── Denied                   denied            no      policy forbids it
    │   └── UnknownResult            unknown_result    no      a handle that expired or is not yours
    ├── UpstreamError                                          the server behind us
    │   ├── Unavailable              unavailable       yes     refused before anything was sent
    │   │   └── NotSent                                          the connection was gone by then: sent again, once
    │   │   └── CannotStart          unavailable       yes     its command is missing; not tried again by itself
    │   ├── NeedsSignIn              needs_sign_in     no      no sign-in, or it has expired; nothing was done
    │   ├── SignInFailed             sign_in_failed    no      signing in, or renewing a sign-in, did not work
    │   ├── Crashed                  crashed           no      died after the request was sent: it may have acted
    │   ├── TimedOut                 timed_out         no      no answer within the deadline
    │   ├── ProtocolViolation        protocol          no      sent something that is not MCP, or too much of it
    │   └── Refused                  upstream_error    no      answered with a JSON-RPC error, kept unchanged
    ├── Overloaded                   overloaded        yes     too many calls in flight
    │   └── RateLimited              rate_limited      yes     too many requests; says how long to wait
    ├── Unasked                      unasked           no      an upstream asked what the client does not support
    └── Internal                     internal          no      a bug of ours

`str(error)` is one line for a person or an agent and ends with what to do next. `to_rpc` is the only mapping to
JSON-RPC; it uses no code in the range that the protocol reserves (-32020 to -32099).
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND_LEGACY = -32002
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042


class WicketError(Exception):
    """Base of all errors. `hint` says what to do next and is part of the printed message."""

    code: ClassVar[str] = "internal"
    rpc_code: int = INTERNAL_ERROR
    retryable: ClassVar[bool] = False
    rule: str = ""
    """The option or scope that refused it, until the audit has recorded it; the client is never told."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        message = self.message.rstrip()
        if not self.hint or not message:
            return message or self.hint
        stop = "" if message.rstrip("\"')]").endswith((".", "!", "?", ":", "…")) else "."
        return f"{message}{stop} {self.hint}".rstrip()


class CallerError(WicketError):
    """The caller must change something."""

    rpc_code = INVALID_PARAMS


class ConfigError(CallerError):
    """A configuration that cannot be used; says where and what was expected."""

    code = "config"

    def __init__(self, message: str, *, file: str = "", line: int | None = None, key: str = "", hint: str = "") -> None:
        where = f"{file}:{line}" if file and line else file
        prefix = ": ".join(part for part in (where, key) if part)
        super().__init__(f"{prefix}: {message}" if prefix else message, hint=hint)
        self.file, self.line, self.key = file, line, key


class BadArguments(CallerError):
    """Arguments that do not fit the tool's own schema."""

    code = "bad_arguments"


class UnknownName(CallerError):
    """No such tool, server or other named object."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, near: Sequence[str] = (), *, hint: str = "") -> None:
        meant = f"Did you mean {_list_names(near)}?" if near else ""
        super().__init__(f"No {kind} named '{name}'.", hint=" ".join(part for part in (meant, hint) if part))
        self.kind, self.name, self.near = kind, name, tuple(near)


class AmbiguousName(CallerError):
    """A bare tool name that several servers have; `candidates` are those that the caller may see."""

    code = "ambiguous_name"

    def __init__(self, name: str, candidates: Sequence[str] = (), *, hint: str = "") -> None:
        amount = str(len(candidates)) if candidates else "several"
        hint = f"Name one of {_list_names(candidates)}." if candidates else hint
        super().__init__(f"'{name}' is offered by {amount} servers.", hint=hint)
        self.candidates = tuple(candidates)


class Denied(CallerError):
    """Policy forbids it."""

    code = "denied"

    def __init__(self, message: str, *, hint: str = "", rule: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class UnknownResult(CallerError):
    """A result handle that expired, never existed, or belongs to someone else."""

    code = "unknown_result"


class UpstreamError(WicketError):
    """The server behind us is at fault."""

    def __init__(self, server: str, message: str, *, hint: str = "", stderr: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.server = server
        self.stderr = tuple(stderr)

    def __str__(self) -> str:
        tail = "".join(f"\n  {self.server}: {line}" for line in self.stderr)
        return f"{super().__str__()}{tail}"


class Unavailable(UpstreamError):
    """Refused before anything was sent: it is safe to try again."""

    code = "unavailable"
    retryable = True
    retry_after: float | None = None
    """Seconds that the server asks us to wait."""


class NotSent(Unavailable):
    """The connection or our session was gone before the request arrived: nothing ran."""


class Moved(NotSent):
    """Another gateway runs the server now; the one that was asked did nothing."""


class NoOwner(Unavailable):
    """It is unknown which gateway runs the server, because the database that decides this is unreachable. The server
    itself has not failed.
    """


class CannotStart(Unavailable):
    """Cannot start, however often it is tried: the user must install or correct something first."""


class NeedsSignIn(UpstreamError):
    """No one is signed in to the server, the sign-in has expired, or it lacks the required rights. Nothing was done."""

    code = "needs_sign_in"

    def __init__(self, server: str, why: str = "", *, hint: str = "") -> None:
        text = f"Server '{server}' needs sign-in{f': {why}' if why else ''}."
        super().__init__(server, text, hint=hint or f"Sign in with: wicket login {server}")
        self.why = why


class SignInFailed(UpstreamError):
    """Signing in failed: the authorization server refused, or its answer cannot be trusted."""

    code = "sign_in_failed"


class Crashed(UpstreamError):
    """Died after the request was sent; whether it acted is unknown."""

    code = "crashed"


class TimedOut(UpstreamError):
    """No answer within the deadline; the upstream was told to cancel."""

    code = "timed_out"


class ProtocolViolation(UpstreamError):
    """Sent something that is not MCP, or more than we accept."""

    code = "protocol"


class Refused(UpstreamError):
    """A JSON-RPC error from the upstream, kept unchanged."""

    code = "upstream_error"

    def __init__(self, server: str, error: dict[str, Any]) -> None:
        code: Any = error.get("code")
        self.rpc_code = code if isinstance(code, int) else INTERNAL_ERROR
        self.error = error
        super().__init__(server, str(error.get("message", "")) or f"error {self.rpc_code}")

    def replace(self, error: dict[str, Any]) -> None:
        """Replace the error object with a version without secrets."""
        self.error = error
        self.message = str(error.get("message", "")) or f"error {self.rpc_code}"
        self.args = (self.message,)


class Overloaded(WicketError):
    """Too many calls in flight."""

    code = "overloaded"
    retryable = True


class RateLimited(Overloaded):
    """Requests came more often than allowed; `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = max(1, math.ceil(retry_after))
        super().__init__(message, hint=f"Wait {self.retry_after} seconds and try again.")


class Unasked(WicketError):
    """An upstream asked for something (elicitation, sampling, roots) that the client does not support."""

    code = "unasked"
    rpc_code = METHOD_NOT_FOUND


class Internal(WicketError):
    """A bug of ours."""


NOTHING_DONE = (Unavailable, NeedsSignIn, SignInFailed, Overloaded)
"""The errors of a request that never reached its server: whatever it would have used up is still there."""


def to_rpc(error: WicketError) -> dict[str, Any]:
    """The JSON-RPC error object for `error`; an upstream's own error object is passed on unchanged."""
    if isinstance(error, Refused):
        return error.error
    return {"code": error.rpc_code, "message": str(error), "data": detail_of(error)}


def detail_of(error: WicketError) -> dict[str, Any]:
    """The details for programs: the code, whether a retry can help, and when."""
    detail: dict[str, Any] = {"code": error.code, "retryable": error.retryable}
    if isinstance(error, RateLimited | Unavailable) and error.retry_after is not None:
        detail["retry_after"] = error.retry_after
    return detail


def _list_names(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
