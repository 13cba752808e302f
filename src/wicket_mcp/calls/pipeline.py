"""The pipeline: which layers a request passes, in which order. Read this first.

    [trace] -> audit -> authorise -> [sign in] -> resolve -> limit(principal) -> [limit(profile)]
          -> [fallback] -> [held] -> arguments -> [approve] -> [cache] -> [limit(server)] -> forward

Stacks are built once: the outer part for each method, the inner part for each server's configuration, so that a layer
that does not concern a method or a server costs nothing. Layers in brackets are present only if the configuration needs
them (sign in: if a server is remote or per user). Arguments are checked only for tools.

A fallback must check the other tool's schema, so it comes before the arguments. A cached answer costs the server
nothing, so the cache comes before the server's limit.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from wicket_mcp.calls.approve import Approvals, approve, observe
from wicket_mcp.calls.arguments import check
from wicket_mcp.calls.audit import FORWARD, Audit, audit
from wicket_mcp.calls.authorise import authorise
from wicket_mcp.calls.cache import AccountOf, Cache, cache
from wicket_mcp.calls.fallback import fallback
from wicket_mcp.calls.follow_tasks import follow_tasks, resolve_task
from wicket_mcp.calls.held import check_held
from wicket_mcp.calls.limits import Admit, GiveBack, ServerBuckets, limit_principal, limit_server
from wicket_mcp.calls.resolve import (
    resolve_extension,
    resolve_prompt,
    resolve_reference,
    resolve_resource,
    resolve_tool,
)
from wicket_mcp.calls.sign_in import DemandAccount
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import MISSING_CLIENT_CAPABILITY, Refused, UnknownName
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import LOCAL
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.results.results import Results
from wicket_mcp.trust.pins import holds

EXTENSION = "*"
"""Stands for every method that Wicket does not know."""
LIST_METHODS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "skills/list")
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel", "tasks/result")


class Parts(msgspec.Struct, frozen=True):
    """What the layers work with. `cache`, `buckets` and `admit` are shared by all generations of a configuration."""

    catalogue: Catalogue
    addresses: Addresses
    results: Results
    audit: Audit
    admit: Admit
    give_back: GiveBack
    cache: Cache
    buckets: ServerBuckets
    approver: Approver
    demand_account: DemandAccount
    forward: Handler
    subscribe: Handler
    set_log_level: Handler
    task_ids: TaskIds
    sign_in: Layer | None = None
    account: AccountOf | None = None
    approvals: Approvals | None = None
    """The rules about calls, if there are any."""
    trace: Layer | None = None
    """The outermost layer of a request that has spans."""
    profiles: Layer | None = None
    """The budgets of profiles, if there are any."""


class Pipeline:
    """The handler for every request to a server, from a client, a script or the library."""

    def __init__(self, parts: Parts, traced: "Pipeline | None" = None, wants_trace: Callable[[], bool] = bool) -> None:
        """`traced` is the same pipeline with the layers of a trace, for the requests that `wants_trace` names."""
        self._traced, self._wants_trace = traced, wants_trace
        self._parts = parts
        self._outermost = [audit(parts.audit)] if parts.trace is None else [parts.trace, audit(parts.audit)]
        self._servers: dict[str, tuple[ServerConfig, Handler, Handler]] = {}
        """The layers of each server; those of servers that are gone are dropped when others are built."""
        self._following = follow_tasks(parts.task_ids, parts.catalogue.has_tasks)(parts.forward)
        self._owner = self._stacks(owner=True)
        self._others = self._stacks(owner=False)

    def __call__(self, request: Request) -> Awaitable[Result]:
        """The answer; one with `isError` is an answer too. Raises WicketError if there is none."""
        if self._traced is not None and self._wants_trace():
            return self._traced(request)
        stacks = self._owner if request.caller.principal is LOCAL else self._others
        return (stacks.get(request.method) or stacks[EXTENSION])(request)

    def _stacks(self, *, owner: bool) -> Mapping[str, Handler]:
        """One stack for each method. The owner has every scope and no limits, so neither is checked."""
        parts = self._parts
        by_server = self._to_server
        resources = resolve_resource(parts.addresses)
        tasks = resolve_task(parts.task_ids)
        extension = resolve_extension(parts.catalogue, parts.addresses)
        stack = partial(self._stack, owner=owner)
        return {
            "tools/call": stack("invoke", "calling tools", resolve_tool(parts.catalogue), by_server),
            "resources/read": stack("invoke", "reading a server's resources", resources, by_server),
            "resources/subscribe": stack("invoke", "watching a server's resources", resources, parts.subscribe),
            "prompts/get": stack("invoke", "getting a server's prompts", resolve_prompt(parts.addresses), by_server),
            "completion/complete": stack(
                "discover", "completion", resolve_reference(parts.catalogue, parts.addresses), by_server
            ),
            "resources/directory/read": stack("invoke", "reading a server's resources", resources, by_server),
            "skills/get": stack("discover", "reading about skills", resources, by_server),
            # Needs no scope: it decides only which messages of their own calls clients are sent.
            "logging/setLevel": nest(self._outermost, _mark(FORWARD, parts.set_log_level)),
            **dict.fromkeys(TASK_METHODS, stack("invoke", "following a task", tasks, by_server)),
            **dict.fromkeys(LIST_METHODS, stack("discover", "listing what a server offers", extension, by_server)),
            EXTENSION: stack("invoke", "using a server's extension", extension, by_server),
        }

    def guard(self, inner: Handler) -> Handler:
        """The layers for a call to a server that is not configured: everything that concerns the caller."""
        if self._traced is not None:
            return self._traced.guard(inner)
        parts = self._parts
        layers = {
            "authorise": authorise("invoke", "calling tools"),
            "limit": limit_principal(parts.admit, parts.give_back, "invocation"),
        }
        if parts.approvals is not None:
            layers["approve"] = approve(parts.approvals)
        return nest([*self._outermost, *_steps(layers)], _mark(FORWARD, inner))

    def _stack(self, scope: str, doing: str, resolve: Layer, inner: Handler, *, owner: bool) -> Handler:
        parts = self._parts
        layers: dict[str, Layer] = {} if owner else {"authorise": authorise(scope, doing)}
        if parts.sign_in is not None:
            layers["sign in"] = parts.sign_in
        layers["resolve"] = resolve
        if not owner:
            layers["limit"] = limit_principal(
                parts.admit, parts.give_back, "invocation" if scope == "invoke" else "discovery"
            )
            if parts.profiles is not None and scope == "invoke":
                layers["limit of the profile"] = parts.profiles
        return nest([*self._outermost, *_steps(layers)], inner)

    def _to_server(self, request: Request) -> Awaitable[Result]:
        servers = self._parts.catalogue.servers
        config = servers.get(request.server)
        if config is None:
            raise UnknownName("server", request.server)
        known = self._servers.get(request.server)
        if known is None or known[0] is not config:
            self._servers = {name: other for name, other in self._servers.items() if servers.get(name) is other[0]}
            known = self._servers[request.server] = (config, *self._inner(config))
        return (known[1] if request.tool is None else known[2])(request)

    def _inner(self, config: ServerConfig) -> tuple[Handler, Handler]:
        """The layers of one server: for prompts, resources and everything else, and for tools."""
        parts = self._parts
        outer: dict[str, Layer] = (
            {"held": check_held(parts.catalogue, parts.approver, parts.demand_account)} if holds(config) else {}
        )
        if parts.approvals is not None and parts.approvals.flow is not None:
            outer["approve"] = observe(parts.approvals.flow)
        others = nest(_steps(outer), self._add_server_limit(config))
        tools = self._direct(config)
        if config.fallback:
            standing_in = fallback(parts.catalogue, config, lambda name: self._direct(parts.catalogue.servers[name]))
            tools = nest(_steps({"fallback": standing_in}), tools)
        return others, tools

    def _direct(self, config: ServerConfig) -> Handler:
        parts = self._parts
        layers: dict[str, Layer] = (
            {"held": check_held(parts.catalogue, parts.approver, parts.demand_account)} if holds(config) else {}
        )
        layers["arguments"] = check(parts.results)
        if parts.approvals is not None and parts.approvals.concern(config.name):
            layers["approve"] = approve(parts.approvals)
        if config.cache:
            layers["cache"] = cache(parts.cache, config, parts.account)
        return nest(_steps(layers), self._add_server_limit(config))

    def _add_server_limit(self, config: ServerConfig) -> Handler:
        forward = _mark(FORWARD, self._forward)
        layers = {"limit of the server": limit_server(self._parts.buckets, config)} if config.calls_per_minute else {}
        return nest(_steps(layers), forward)

    async def _forward(self, request: Request) -> Result:
        """Tasks concern only clients and tools that declare them; every other call is forwarded directly."""
        caller, tool = request.caller, request.tool
        keeps_task = getattr(caller, "followed", None) is not None
        if caller.capabilities or keeps_task or (tool is not None and "execution" in tool.definition):
            return await self._following(request)
        try:
            return await self._parts.forward(request)
        except Refused as refusal:
            if refusal.rpc_code != MISSING_CLIENT_CAPABILITY:
                raise
        return await self._following(request)


def _steps(layers: Mapping[str, Layer]) -> list[Layer]:
    """The layers, each marking when it is entered."""
    return [partial(_mark_layer, name, layer) for name, layer in layers.items()]


def _mark_layer(name: str, layer: Layer, inner: Handler) -> Handler:
    return _mark(name, layer(inner))


def _mark(name: str, inner: Handler) -> Handler:
    """Note in the span when the step `name` begins; not a coroutine of its own, because every call passes several."""
    clock = time.perf_counter

    def enter(request: Request) -> Awaitable[Result]:
        request.span.marks += name, clock()
        return inner(request)

    return enter


def nest(layers: list[Layer], inner: Handler) -> Handler:
    """The first layer is the outermost."""
    for layer in reversed(layers):
        inner = layer(inner)
    return inner
