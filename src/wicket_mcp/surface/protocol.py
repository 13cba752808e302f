"""The MCP methods, for both eras: a request in, a result object out. Knows no transport.

Legacy (handshake, up to 2025-11-25) and modern (stateless, 2026-07-28) differ in the envelope of a request and in how a
client is asked a question during it. The methods themselves are the same, so there is one table of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from wicket_mcp import __version__
from wicket_mcp.budget import MAX_ADDRESS
from wicket_mcp.calls.audit import measure
from wicket_mcp.calls.profile_budgets import TokenBudgets
from wicket_mcp.catalog.change_notices import combine_notices
from wicket_mcp.dialects.base import Menu, Named, ToolCall, failure
from wicket_mcp.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    RateLimited,
    UnknownName,
    WicketError,
)
from wicket_mcp.extensions import APP_MARK, UI, declared_extensions, declares
from wicket_mcp.model import (
    LATEST_LEGACY_VERSION,
    LEGACY_VERSIONS,
    LOG_LEVELS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_SERVER_INFO,
    META_VERSION,
    MODERN_VERSION,
    Caller,
    JsonObject,
    ListKind,
    Principal,
    as_object,
    as_text,
)
from wicket_mcp.request import EMPTY
from wicket_mcp.surface import content_methods, discovery_methods, group_methods, subscriptions, tasks_methods
from wicket_mcp.surface.answers import UNMETERED, meter, undress
from wicket_mcp.surface.caller import LegacyClient, RequestCaller, Send
from wicket_mcp.surface.feed import Changes, Feed
from wicket_mcp.surface.held_calls import HeldCalls, digest_of
from wicket_mcp.surface.local_tasks import LocalTasks
from wicket_mcp.surface.problems import RpcProblem, error_of
from wicket_mcp.telemetry.log import one_line
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from wicket_mcp.telemetry.trace import ServerTrace

log = logging.getLogger(__name__)

SERVER_INFO: JsonObject = {"name": "wicket", "title": "Wicket", "version": __version__}
WITHOUT_DISCOVERY = "Tools are called by name here. This API key may not look for them: it lacks the scope 'discover'."
LIST_TTL_MS = 60_000  # how long a modern client may keep our lists; it is told of changes earlier
_OF_SERVERS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_OF_SKILLS = frozenset({"skills/list", "skills/get"})
_LISTS = _OF_SERVERS | _OF_SKILLS | {"server/discover", "groups/list"}
_KNOWN_PARAMETERS = frozenset({"name", "uri", "arguments", "task", "_meta", "inputResponses", "requestState"})
"""Parameters of the methods that go to one server."""
_RESUMABLE = frozenset({"tools/call", "prompts/get", "resources/read"})


def read_message(message: Any) -> JsonObject:
    """`message` if it is one JSON-RPC request, notification or response. Raises RpcProblem."""
    body = cast("JsonObject", message) if isinstance(message, dict) else {}
    if body.get("jsonrpc") != "2.0":
        raise RpcProblem(INVALID_REQUEST, "The message must be a single JSON-RPC 2.0 object.")
    if "method" in body and not isinstance(body["method"], str):
        raise RpcProblem(INVALID_REQUEST, "'method' must be a string.")
    if "id" in body and (isinstance(body["id"], bool) or not isinstance(body["id"], str | int)):
        raise RpcProblem(INVALID_REQUEST, "'id' must be a string or an integer.")
    if not isinstance(body.get("params", {}), dict):
        raise RpcProblem(INVALID_PARAMS, "'params' must be an object.")
    return body


def is_modern(body: JsonObject) -> bool:
    """Whether a request has the modern envelope. Raises RpcProblem if the envelope is invalid."""
    params: JsonObject = body.get("params", {})
    carried: Any = params.get("_meta")
    if not isinstance(carried, dict) or META_VERSION not in carried:
        return False
    meta = cast("JsonObject", carried)
    version: Any = meta[META_VERSION]
    if not isinstance(version, str):
        raise RpcProblem(INVALID_PARAMS, f"{META_VERSION} must be a string.")
    if META_CAPABILITIES not in meta:
        raise RpcProblem(INVALID_PARAMS, f"params._meta needs {META_CAPABILITIES}.")
    if not isinstance(meta[META_CAPABILITIES], dict):
        raise RpcProblem(INVALID_PARAMS, f"{META_CAPABILITIES} must be an object.")
    if not isinstance(meta.get(META_LOG_LEVEL, ""), str):
        raise RpcProblem(INVALID_PARAMS, f"{META_LOG_LEVEL} must be a string.")
    if version != MODERN_VERSION:
        known = {"supported": [MODERN_VERSION], "requested": version}
        raise RpcProblem(UNSUPPORTED_VERSION, "Unsupported protocol version", known)
    return True


def modern_caller(principal: Principal, session: str, send: Send, meta: JsonObject) -> RequestCaller:
    """The caller of a modern request, which carries everything about itself in its `_meta`."""
    capabilities: JsonObject = meta.get(META_CAPABILITIES) or {}
    level, name = meta.get(META_LOG_LEVEL) or "", client_name(meta.get(META_CLIENT_INFO))
    return RequestCaller(principal, session, send, capabilities, level, resumes=True, client_name=name)


def client_name(info: Any) -> str:
    """A client's name as it states it: one printable line, shortened to what we accept."""
    name: Any = cast("JsonObject", info).get("name") if isinstance(info, dict) else ""
    if not isinstance(name, str):
        return ""
    return name[:64] if name.isprintable() else one_line(name[:256], 64)


def error_response(number: Any, problem: WicketError) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "error": error_of(problem)}


class Request(msgspec.Struct, frozen=True):
    """One request of a client; `client` is what a legacy client declared in its handshake."""

    id: Any
    method: str
    params: JsonObject
    caller: Caller
    modern: bool
    client: LegacyClient | None = None
    named: Named | None = None
    """The upstream tool that a call names directly, if the transport has already looked it up."""

    def repeat(self, params: JsonObject) -> "Request":
        """The same request with other parameters."""
        return replace(self, params=params)

    @property
    def legacy_version(self) -> str:
        return self.client.version if self.client is not None else ""

    @property
    def meta(self) -> JsonObject:
        meta: Any = self.params.get("_meta")
        return cast("JsonObject", meta) if isinstance(meta, dict) else {}

    @property
    def unknown(self) -> Mapping[str, Any]:
        """Parameters that Wicket does not know: a server may."""
        if self.params.keys() <= _KNOWN_PARAMETERS:
            return EMPTY
        return {key: value for key, value in self.params.items() if key not in _KNOWN_PARAMETERS}

    @property
    def subject(self) -> str:
        """What it is about: a name, an address, or only the method."""
        return as_text(self.params.get("name")) or as_text(self.params.get("uri")) or self.method

    def text(self, key: str) -> str:
        """A parameter that must be a string. Raises RpcProblem."""
        value: Any = self.params.get(key)
        if not isinstance(value, str):
            raise RpcProblem(INVALID_PARAMS, f"{self.method} needs '{key}' (string).")
        if len(value) > MAX_ADDRESS:
            raise RpcProblem(INVALID_PARAMS, f"'{key}' may have {MAX_ADDRESS:,} characters at most.")
        return value


Disclose = Callable[[Caller, str, str, int], None]
"""Is told what a caller was shown: the dialect, `list` or `call`, and how many characters."""


class Served(NamedTuple):
    """What the current configuration serves for one choice of dialects."""

    verbs: Verbs
    menu: Menu
    instructions: Callable[[Principal], Awaitable[str]]
    """The instructions for a principal's clients."""
    disclose: Disclose
    admit: Callable[[Principal, str], Principal] = lambda principal, _client: principal
    """The principal after its profile is applied: the served profile, the one it is restricted to, or its client's."""
    profile_menus: Mapping[str, Menu] = {}
    """Served instead of `menu` to principals that use one of these profiles."""
    budgets: TokenBudgets | None = None
    """The tokens that profiles have left for answers; None if no profile has such a limit."""


class Serving:
    """What is served at the moment, by dialect names; an empty name means the configured dialects."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: Mapping[tuple[str, ...], Served] = {}

    def replace(self, now: Mapping[tuple[str, ...], Served]) -> None:
        """Serve these from the next request on."""
        self.now = now


@dataclass
class Protocol:
    """The methods, over one menu of dialects: the named ones or, without names, the configured ones."""

    serving: Serving
    names: tuple[str, ...]
    feed: Feed
    held: HeldCalls
    tasks: LocalTasks
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    trace: "ServerTrace | None" = None
    """Wraps every answer when traces are exported."""
    check: Callable[[], Awaitable[None]] | None = None
    """Raises WicketError if the client may not be served any more. Over HTTP, each request brings its token instead."""

    @property
    def served(self) -> Served:
        return self.serving.now[self.names]

    @property
    def verbs(self) -> Verbs:
        return self.served.verbs

    @property
    def menu(self) -> Menu:
        return self.served.menu

    def menu_for(self, principal: Principal) -> Menu:
        """The menu for `principal`, who may be restricted to a profile with its own dialects."""
        served = self.served
        return served.profile_menus.get(principal.profile, served.menu) if served.profile_menus else served.menu

    def settle_profile(self, caller: RequestCaller, params: JsonObject) -> None:
        """Apply the profile that the client's name selects, now that the name is known."""
        name = caller.client_name or client_name(params.get("clientInfo"))
        principal = self.served.admit(caller.principal, name)
        if principal is not caller.principal:
            caller.admit_as(principal)

    async def respond(self, request: Request) -> JsonObject:
        """The JSON-RPC response to `request`, whatever happens on the way."""
        try:
            if self.check is not None:
                await self.check()
            return {"jsonrpc": "2.0", "id": request.id, "result": await self.answer(request)}
        except WicketError as problem:
            self.verbs.record_refusal(request.caller, request.method, request.subject, problem)
            return error_response(request.id, problem)
        except Exception:  # the boundary: a bug of ours costs this request, not the connection
            log.exception("%s failed", request.method)
            error = {"code": INTERNAL_ERROR, "message": "A defect in Wicket; its log has the details."}
            return {"jsonrpc": "2.0", "id": request.id, "error": error}

    def answer(self, request: Request) -> Awaitable[JsonObject]:
        """The result object. Raises WicketError, which the transport turns into a JSON-RPC error."""
        return self._answer(request) if self.trace is None else self.trace(request, self._answer)

    async def _answer(self, request: Request) -> JsonObject:
        method = _METHODS.get(request.method)
        if method is None or request.method in (_LEGACY_ONLY if request.modern else _MODERN_ONLY):
            if method is not None or request.method.startswith(_OWN_METHODS):
                raise RpcProblem(METHOD_NOT_FOUND, f"Method not found: {request.method}")
            method = Protocol.pass_on
        if APP_MARK in request.meta:
            from wicket_mcp.surface import app_methods  # noqa: PLC0415  (few clients show interfaces)

            method = app_methods.METHODS.get(request.method, app_methods.refuse)
        if self.served.budgets is not None and (APP_MARK in request.meta or request.method not in UNMETERED):
            method = meter(self.served.budgets, method)
        if not request.modern and request.method == "tools/call" and isinstance(request.params.get("task"), dict):
            return await tasks_methods.call_legacy(self, request, lambda caller: method(self, request, caller, {}))
        if not request.modern:
            return undress(await method(self, request, request.caller, {}))
        if request.caller.log_level in LOG_LEVELS:
            await self.verbs.set_log_level(request.caller.log_level, request.caller)
        if request.method not in _RESUMABLE:
            return self._dress(request, await method(self, request, request.caller, {}))
        if request.caller.capabilities and request.method == "tools/call" and tasks_methods.wants_task(request):
            begin = partial(self._resumable, method)
            return self._dress(request, await tasks_methods.call_modern(self, request, begin))
        if request.caller.capabilities or "requestState" in request.params:
            return self._dress(request, await self._resumable(method, request))
        result = await method(self, request, request.caller, {})
        if result.get("resultType") == "input_required":  # with no question, but with the upstream's state to carry
            result = self.held.seal_state(result, request.caller.principal, digest_of(request.method, request.params))
        return self._dress(request, result)

    async def _resumable(self, method: "Method", request: Request) -> JsonObject:
        """A modern request whose upstream may ask questions: started, or resumed after a question."""
        digest = digest_of(request.method, request.params)
        token = request.meta.get("progressToken")
        resume: JsonObject = {}
        if "requestState" in request.params:
            replies = as_object(request.params.get("inputResponses"))
            kind, content = self.held.seal.open(request.params["requestState"], request.caller.principal, digest)
            if kind == "held":
                return await self.held.resume(content, request.caller, digest, replies, token)
            resume = {"inputResponses": replies, **({} if content is None else {"requestState": content})}
        elif "inputResponses" in request.params:
            resume = {"inputResponses": as_object(request.params["inputResponses"])}
        return await self.held.begin(
            request.caller, digest, lambda caller: method(self, request, caller, resume), token
        )

    # Methods

    async def initialize(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        requested = request.params.get("protocolVersion")
        version = requested if requested in LEGACY_VERSIONS else LATEST_LEGACY_VERSION
        if request.client is not None:
            name = client_name(request.params.get("clientInfo"))
            request.client.introduce(as_object(request.params.get("capabilities")), name, version)
        capabilities = await self._capabilities(caller)
        return {
            **self.verbs.addresses.fields("server", caller.principal),
            "protocolVersion": version,
            "capabilities": {**capabilities, "tasks": tasks_methods.LEGACY_CAPABILITY},
            "serverInfo": SERVER_INFO,
            "instructions": await self._instructions(caller),
        }

    async def discover(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        capabilities = await self._capabilities(caller)
        return {
            **self.verbs.addresses.fields("server", caller.principal),
            "supportedVersions": [MODERN_VERSION],
            "capabilities": capabilities,
            "instructions": await self._instructions(caller),
        }

    async def set_level(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        level = request.text("level")
        if level not in LOG_LEVELS:
            raise RpcProblem(INVALID_PARAMS, f"'{level[:40]}' is not a log level; they are {', '.join(LOG_LEVELS)}.")
        if request.client is not None:
            request.client.want_logs(level)
        await self.verbs.set_log_level(level, caller)
        return {}

    async def call_tool(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        name = request.text("name")
        arguments = request.params.get("arguments")
        call = ToolCall(
            {} if arguments is None else arguments, caller, request.meta, resume, request.named, request.unknown
        )
        verbs, menu, _, disclose, _, menus, budgets = self.served
        if menus:
            menu = menus.get(caller.principal.profile, menu)
        if budgets is not None:
            try:
                await budgets.check(caller.principal)
            except RateLimited as problem:  # a result, which every client shows to its model
                return failure(problem)
        result = await menu.call(verbs, name, call)
        disclose(caller, menu.name, "call", size := measure(result))
        if budgets is not None:
            await budgets.spend(caller.principal, size)
        if caller.capabilities and declares(caller.capabilities, UI):
            from wicket_mcp.surface import app_pages  # noqa: PLC0415  (few clients show interfaces)

            return app_pages.confine_result(verbs, caller, result)
        return result

    async def pass_on(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        """Forward a method of an unknown extension to the server that it concerns."""
        try:
            return await self.verbs.pass_on(request.method, request.params, caller, request.meta, resume)
        except UnknownName as problem:
            if problem.kind != "method":
                raise
            raise RpcProblem(METHOD_NOT_FOUND, f"Method not found: {request.method}") from None

    async def nothing(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        return {}

    async def _instructions(self, caller: Caller) -> str:
        return (
            await self.served.instructions(caller.principal) if caller.principal.may("discover") else WITHOUT_DISCOVERY
        )

    @property
    def unprefixed(self) -> bool:
        return self.verbs.addresses.unprefixed

    def own(self, listed: Callable[[], list[JsonObject]]) -> list[JsonObject]:
        """What Wicket itself offers; nothing when a single server is served unchanged."""
        return [] if self.unprefixed else listed()

    def changed_lists(self, changes: Changes, principal: Principal) -> dict[ListKind, JsonObject]:
        """The lists that a client is notified about, and the unknown fields that servers sent with it; if all listed
        tools are ours, only the menu changes them.
        """
        fixed, changed = self.menu.fixed, changes.kinds
        kinds: set[ListKind] = {kind for kind in changed if kind != "menu" and not (kind == "tools" and fixed)}
        if "menu" in changed and not self.settled:
            kinds.add("tools")
        if changed:  # groups show what the servers offer
            kinds.add("groups")
        hears = partial(self.verbs.addresses.may_hear, principal)
        return {kind: combine_notices(changes.notices, kind, hears) for kind in sorted(kinds)}

    def announcement(self, changes: Changes, caller: Caller) -> tuple[str, JsonObject] | None:
        """The notification of an unknown extension that a client is told, if it may know of it and declares it."""
        news = changes.announcement
        if news is None or news.session not in ("", caller.session) or news.owner not in ("", caller.principal.id):
            return None
        if news.extensions.isdisjoint(declared_extensions(caller.capabilities)):
            return None
        visible = self.verbs.addresses.shows_server(caller.principal, news.server)
        return (news.method, news.params) if visible else None

    @property
    def settled(self) -> bool:
        """Whether the list of tools never changes."""
        return bool(self.names) and self.menu.fixed

    async def _capabilities(self, caller: Caller) -> JsonObject:
        return {
            "logging": {},
            **await self.verbs.capabilities(caller.principal),
            "tools": {} if self.settled else {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "completions": {},
        }

    def _list_ttl(self, request: Request) -> int:
        """Milliseconds for which a client may cache a list: no longer than any of its servers allows."""
        if request.method in _OF_SKILLS:
            shortest = self.verbs.skills.shortest_ttl(request.caller.principal)
        elif request.method not in _OF_SERVERS or (request.method == "tools/list" and self.menu.fixed):
            return LIST_TTL_MS
        else:
            shortest = self.verbs.shortest_ttl(request.caller.principal)
        return LIST_TTL_MS if shortest is None else min(LIST_TTL_MS, int(shortest * 1000))

    def _dress(self, request: Request, result: JsonObject) -> JsonObject:
        meta: JsonObject = {**result.get("_meta", {}), META_SERVER_INFO: SERVER_INFO}
        dressed = {"resultType": "complete", **result, "_meta": meta}
        if request.method in _LISTS:
            dressed |= {"ttlMs": self._list_ttl(request), "cacheScope": "private"}
        elif request.method in ("resources/read", "resources/directory/read") and dressed["resultType"] == "complete":
            dressed = {"ttlMs": 0, "cacheScope": "private", **dressed}
        return dressed


Method = Callable[[Protocol, Request, Caller, JsonObject], Awaitable[JsonObject]]

_METHODS: Mapping[str, Method] = {
    "initialize": Protocol.initialize,
    "ping": Protocol.nothing,
    "logging/setLevel": Protocol.set_level,
    "server/discover": Protocol.discover,
    "subscriptions/listen": subscriptions.listen,
    "tools/list": discovery_methods.list_tools,
    "tools/call": Protocol.call_tool,
    "resources/list": content_methods.list_resources,
    "resources/templates/list": content_methods.list_templates,
    "resources/read": content_methods.read_resource,
    "resources/subscribe": content_methods.subscribe,
    "resources/unsubscribe": content_methods.unsubscribe,
    "prompts/list": content_methods.list_prompts,
    "prompts/get": content_methods.get_prompt,
    "completion/complete": content_methods.complete,
    "resources/directory/read": discovery_methods.read_directory,
    "skills/list": discovery_methods.list_skills,
    "skills/get": discovery_methods.get_skill,
    "groups/list": group_methods.list_groups,
    "groups/get": group_methods.get_group,
    "tools/resolve": discovery_methods.resolve_tool,
    "tasks/get": tasks_methods.get,
    "tasks/update": tasks_methods.update,
    "tasks/cancel": tasks_methods.cancel,
    "tasks/result": tasks_methods.result,
    "tasks/list": tasks_methods.list_tasks,
}
_OWN_METHODS = ("notifications/", "roots/", "sampling/", "elicitation/", "tasks/")
"""Methods that the protocol itself defines; they never belong to an unknown extension."""
_LEGACY_ONLY = frozenset({"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}) | {
    "tasks/result",
    "tasks/list",
}
_MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen", "tasks/update"})
