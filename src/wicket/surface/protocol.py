"""The MCP methods, for both eras: a request in, a result object out. Knows no transport.

Legacy (handshake, up to 2025-11-25) and modern (stateless, 2026-07-28) differ in how a request is dressed, not in what
it asks for, so there is one table of methods; `_dress` adds what a modern result carries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wicket import __version__
from wicket.core.verbs import Verbs
from wicket.dialects.base import Menu, ToolCall
from wicket.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    WicketError,
)
from wicket.model import (
    LATEST_LEGACY_VERSION,
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_SERVER_INFO,
    META_SUBSCRIPTION,
    META_VERSION,
    MODERN_VERSION,
    Caller,
    JsonObject,
    ListKind,
    as_object,
)
from wicket.surface.feed import Feed

SERVER_INFO: JsonObject = {"name": "wicket", "title": "Wicket", "version": __version__}
LIST_TTL_MS = 60_000  # how long a modern client may keep our lists; it is told of changes earlier
_CACHED = frozenset({"server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_FLAGS: Mapping[ListKind, str] = {
    "tools": "toolsListChanged",
    "resources": "resourcesListChanged",
    "prompts": "promptsListChanged",
}


class RpcProblem(WicketError):
    """A JSON-RPC error about the message itself, with its code and data."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.rpc_code = code
        self.data = data

    def to_error(self) -> JsonObject:
        error: JsonObject = {"code": self.rpc_code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client."""

    id: Any
    method: str
    params: JsonObject
    caller: Caller
    modern: bool

    @property
    def meta(self) -> Mapping[str, Any]:
        return as_object(self.params.get("_meta"))


@dataclass
class Protocol:
    """The methods, over one menu of dialects."""

    verbs: Verbs
    menu: Menu
    instructions: Callable[[], Awaitable[str]]
    feed: Feed
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: Request) -> JsonObject:
        """The result object. Raises WicketError, which the transport turns into a JSON-RPC error."""
        method = _METHODS.get(request.method)
        if method is None or request.method in (_LEGACY_ONLY if request.modern else _MODERN_ONLY):
            raise RpcProblem(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        result = await method(self, request)
        return self._dress(request.method, result) if request.modern else _undress(result)

    async def initialize(self, request: Request) -> JsonObject:
        asked: Any = request.params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in LEGACY_VERSIONS else LATEST_LEGACY_VERSION,
            "capabilities": self._capabilities(),
            "serverInfo": SERVER_INFO,
            "instructions": await self.instructions(),
        }

    async def discover(self, request: Request) -> JsonObject:
        return {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": self._capabilities(),
            "instructions": await self.instructions(),
        }

    async def list_tools(self, request: Request) -> JsonObject:
        if request.params.get("cursor") is not None:
            raise RpcProblem(INVALID_PARAMS, "Unknown cursor: the list of tools has one page.")
        return {"tools": await self.menu.list(self.verbs)}

    async def call_tool(self, request: Request) -> JsonObject:
        name: Any = request.params.get("name")
        if not isinstance(name, str):
            raise RpcProblem(INVALID_PARAMS, "tools/call needs a 'name' (string).")
        arguments: Any = request.params.get("arguments")
        return await self.menu.call(
            self.verbs, name, ToolCall({} if arguments is None else arguments, request.caller, request.meta)
        )

    async def listen(self, request: Request) -> JsonObject:
        """A modern client's stream of changes: acknowledged first, then open until it leaves or we close."""
        wanted: Any = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcProblem(INVALID_PARAMS, "subscriptions/listen needs 'notifications' (object).")
        honoured: JsonObject = {flag: True for flag in _FLAGS.values() if as_object(wanted).get(flag) is True}
        meta: JsonObject = {META_SUBSCRIPTION: request.id}

        def changed(kinds: frozenset[ListKind]) -> None:
            for kind in sorted(kinds):
                if _FLAGS[kind] in honoured:
                    request.caller.notify(f"notifications/{kind}/list_changed", {"_meta": meta})

        unsubscribe = self.feed.subscribe(changed)
        try:
            request.caller.notify(
                "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta}
            )
            await self.closing.wait()
        finally:
            unsubscribe()
        return {"_meta": meta}

    async def nothing(self, request: Request) -> JsonObject:
        return {}

    def _capabilities(self) -> JsonObject:
        return {"tools": {} if self.menu.fixed else {"listChanged": True}}

    def _dress(self, method: str, result: JsonObject) -> JsonObject:
        meta: JsonObject = {**result.get("_meta", {}), META_SERVER_INFO: SERVER_INFO}
        dressed = {"resultType": "complete", **result, "_meta": meta}
        if method in _CACHED:
            dressed |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private"}
        return dressed


def _undress(result: JsonObject) -> JsonObject:
    """A legacy result does not carry the modern marker that a modern upstream may have put there."""
    if "resultType" in result:
        return {key: value for key, value in result.items() if key != "resultType"}
    return result


_METHODS: Mapping[str, Callable[[Protocol, Request], Awaitable[JsonObject]]] = {
    "initialize": Protocol.initialize,
    "ping": Protocol.nothing,
    "logging/setLevel": Protocol.nothing,
    "server/discover": Protocol.discover,
    "subscriptions/listen": Protocol.listen,
    "tools/list": Protocol.list_tools,
    "tools/call": Protocol.call_tool,
}
_LEGACY_ONLY = frozenset({"initialize", "ping", "logging/setLevel"})
_MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen"})


def read_message(message: Any) -> JsonObject:
    """`message` if it is one JSON-RPC request, notification or response. Raises RpcProblem."""
    body = as_object(message)
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
    """Whether a request carries the modern envelope. Raises RpcProblem when it does so wrongly."""
    meta = as_object(body.get("params", {}).get("_meta"))
    if META_VERSION not in meta:
        return False
    version: Any = meta[META_VERSION]
    if not isinstance(version, str):
        raise RpcProblem(INVALID_PARAMS, f"{META_VERSION} must be a string.")
    if META_CAPABILITIES not in meta:
        raise RpcProblem(INVALID_PARAMS, f"params._meta needs {META_CAPABILITIES}.")
    if version != MODERN_VERSION:
        known = {"supported": [MODERN_VERSION], "requested": version}
        raise RpcProblem(UNSUPPORTED_VERSION, "Unsupported protocol version", known)
    return True
