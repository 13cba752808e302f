"""A request on behalf of a principal: the value that travels from the surface to the pool.

A layer is a function around the next handler; `calls/pipeline.py` has their order. A request is never changed: a layer
that learns more (the server, the final arguments) passes on a changed copy. What the audit and the trace must know,
whatever the outcome, is written into its `span`, which all copies share.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from wicket_mcp.extensions import AS_CLIENT
from wicket_mcp.model import Caller, JsonObject, Principal, Silent, Tool

EMPTY: Mapping[str, Any] = {}

GATEWAY = Principal("gateway")
"""Wicket itself, when it lists servers or probes them."""


Rerun: TypeAlias = Callable[[], Awaitable[frozenset[str] | None]]
"""Runs a script again up to a call, with untrusted text replaced: which arguments change; None if unknown."""


class Span(msgspec.Struct, eq=False):
    """What happened to one request: filled in on its way, read by the audit and the trace."""

    server: str = ""
    name: str = ""
    """The tool, prompt or resource, under its own name once it is resolved."""
    arguments: Any = None
    outcome: str = ""
    size: int = 0
    detail: str = ""
    """Why it was denied or failed."""
    run: str = ""
    """The script that made the call."""
    rerun: Rerun | None = None
    """Finds out what the arguments of a script's call depend on."""
    concealable: frozenset[str] | None = None
    """For a script's second run: the fields of the result that contain no untrusted text; None for all fields."""
    labels: JsonObject = msgspec.field(default_factory=dict[str, Any])
    """The labels of the result, as in `_meta.ifc`, if data flow is tracked."""
    references: tuple[tuple[str, str], ...] = ()
    """The arguments that referred to stored results, and their handles."""
    arguments_digest: str = ""
    """Set for large arguments: computed in a thread, together with their length."""
    arguments_bytes: int = 0
    rule: str = ""
    """The rule that decided about the call, and its decision."""
    upstream: float = 0.0
    """Seconds that the server took."""
    marks: list[str | float] = []
    """Each step of the pipeline and when it began, one after the other (`calls/pipeline.py`)."""
    progress: JsonObject | None = None
    """The server's last progress notification."""


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request to one server, for one principal."""

    method: str
    caller: Caller
    params: JsonObject
    """The parameters to send, without `_meta`; for a tool, its arguments are under `arguments`."""
    name: str = ""
    """The requested name, as the client spelled it: a tool, a prompt, the address of a resource."""
    server: str = ""
    """The target server; known from the start for ad-hoc calls and listings, resolved for all others."""
    tool: Tool | None = None
    meta: Mapping[str, Any] = EMPTY
    """The request's `_meta` as the client sent it."""
    resume: Mapping[str, Any] = EMPTY
    """`inputResponses` and `requestState` of a client that repeats its request to answer an upstream's question."""
    may_be_task: bool = False
    """Whether a client that declares tasks may get a task as the answer; else Wicket waits for its end."""
    declare_tasks: bool = False
    """Whether to declare to the server that it may answer with a task."""
    notification: bool = False
    """Whether it is a notification: it is sent, and its result is empty."""
    unmetered: bool = False
    """Whether Wicket asks by itself, in following a task: it counts against no limit."""
    whole: bool = False
    """Return the complete result, whatever its size and source."""
    headers: Mapping[str, str] | None = None
    timeout: float | None = None
    span: Span

    @property
    def principal(self) -> Principal:
        return self.caller.principal


class Result(msgspec.Struct, frozen=True, gc=False):
    """The upstream's result object, unchanged, and the request as it was sent."""

    body: JsonObject
    request: Request

    @property
    def tool(self) -> Tool:
        """The tool that answered. Raises ValueError if there is none."""
        if self.request.tool is None:
            raise ValueError(f"{self.request.method} has no tool")
        return self.request.tool


Handler: TypeAlias = Callable[[Request], Awaitable[Result]]
Layer: TypeAlias = Callable[[Handler], Handler]


def tool_call(
    tool: Tool | str,
    arguments: Any,
    caller: Caller,
    meta: Mapping[str, Any] = EMPTY,
    *,
    resume: Mapping[str, Any] = EMPTY,
    whole: bool = False,
    may_be_task: bool = False,
) -> Request:
    """A call of a tool, by name or with the tool that a dialect has already found."""
    known = tool if isinstance(tool, Tool) else None
    return Request(
        method="tools/call",
        caller=caller,
        params={"arguments": arguments},
        name=known.key if known is not None else str(tool),
        tool=known,
        meta=meta,
        resume=resume,
        whole=whole,
        may_be_task=may_be_task,
        span=Span(arguments=arguments),
    )


def internal(
    server: str, method: str, params: JsonObject, timeout: float | None = None, principal: Principal = GATEWAY
) -> Request:
    """A request of the gateway itself: a listing, a probe. It passes only the last layer.

    It is made for `principal` if only users have an account at the server.
    """
    return Request(
        method=method,
        caller=_OURSELVES if principal is GATEWAY else Silent(principal, session="", capabilities=AS_CLIENT),
        params=params,
        server=server,
        timeout=timeout,
        span=Span(server),
    )


_OURSELVES = Silent(GATEWAY, session="", capabilities=AS_CLIENT)
