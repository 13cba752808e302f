"""Finds the protocol era of an upstream, and gives requests the envelope of that era.

Modern first (`server/discover`), then the handshake (`initialize`): every legacy server seen so far answers an unknown
first request with an error and accepts `initialize` afterwards. A silent server also gets the handshake after a short
wait, and the first answer decides.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from wicket_mcp.codec import weighs_over
from wicket_mcp.errors import UNSUPPORTED_VERSION, Crashed, ProtocolViolation, Refused, Unavailable
from wicket_mcp.extensions import AS_CLIENT, KNOWN_CAPABILITIES, legacy_extensions, unknown
from wicket_mcp.model import (
    LATEST_LEGACY_VERSION,
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_SERVER_INFO,
    MODERN_VERSION,
    JsonObject,
    Principal,
    as_list,
    as_object,
    as_text,
)
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import CLIENT_INFO, NO_CALLBACKS, Callbacks, Connection, envelope
from wicket_mcp.upstream.http_errors import http_status

log = logging.getLogger(__name__)

LEGACY_CAPABILITIES: JsonObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {"listChanged": False},
    **AS_CLIENT,
}
"""The client capabilities that we declare to a legacy upstream: we forward its questions to the caller."""
BEHIND = "wicket/protocolVersion"
"""In the `_meta` of a gateway's answer to `server/discover` for a server that it runs: the server's own version."""
_KNOWN = frozenset({"protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions", "_meta"}) | {
    "ttlMs",
    "cacheScope",
    "resultType",
}
_ASKER_GONE = "The gateway process that asked this question is gone, and the call with it."
MAX_DECLARED = 64 * 1024
"""Bytes of what a server declares of each kind, which clients see and which is kept as long as the server."""
MAX_INSTRUCTIONS = 16 * 1024  # characters
SILENCE = 5.0  # seconds after which a silent upstream also gets the handshake


def legacy_capabilities(*, roots: bool, extensions: JsonObject | None = None) -> JsonObject:
    """What a legacy upstream is told. `roots` says whether it may ask for the client's roots; `extensions` are those of
    the clients that share the connection, if they are not ours.
    """
    capabilities = LEGACY_CAPABILITIES if roots else {k: v for k, v in LEGACY_CAPABILITIES.items() if k != "roots"}
    if extensions is None:
        return capabilities
    capabilities = {name: value for name, value in capabilities.items() if name != "extensions"}
    return {**capabilities, "extensions": extensions} if extensions else capabilities


class Greeting(msgspec.Struct, frozen=True):
    """What an upstream declares when we connect."""

    protocol_version: str
    capabilities: JsonObject = msgspec.field(default_factory=dict[str, Any])
    server_info: JsonObject = msgspec.field(default_factory=dict[str, Any])
    instructions: str = ""
    behind: str = ""
    """The server's own version, if another gateway runs it and speaks to us in the modern era."""
    fields: JsonObject = msgspec.field(default_factory=dict[str, Any])
    """Fields of its answer that Wicket does not know, and what is in its `_meta`."""

    @property
    def modern(self) -> bool:
        return self.protocol_version == MODERN_VERSION


class Session(msgspec.Struct):
    """A connection whose era is known."""

    connection: Connection
    greeting: Greeting

    def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
    ) -> Awaitable[JsonObject]:
        """Send one request; `capabilities` are those of the client on whose behalf it is made."""
        if self.greeting.protocol_version == MODERN_VERSION:
            carried = envelope(capabilities)
            params = {**params, "_meta": {**params["_meta"], **carried} if "_meta" in params else carried}
        else:
            if "requestState" in params:  # to send it without would make the call a second time
                raise Crashed("wicket", _ASKER_GONE, hint="The call may have acted: check before you make it again.")
            if "inputResponses" in params:  # the replies were for us: the legacy era does not know them
                params = {key: value for key, value in params.items() if key != "inputResponses"}
            if capabilities:
                params = _tell_extensions(params, capabilities)
        return self.connection.request(method, params, callbacks, headers)

    async def notify(
        self,
        method: str,
        params: JsonObject,
        capabilities: JsonObject | None = None,
        principal: Principal | None = None,
    ) -> None:
        """Send a notification on behalf of a client with these capabilities."""
        if self.greeting.modern:
            params = {**params, "_meta": {**params.get("_meta", {}), **envelope(capabilities)}}
        elif capabilities:
            params = _tell_extensions(params, capabilities)
        await self.connection.notify(method, params, principal)


def _tell_extensions(params: JsonObject, capabilities: JsonObject) -> JsonObject:
    """The parameters of a request to a legacy server, with the extensions that its client declares.

    The server is told once for a connection, which clients may share: so each request says it too, under the key of
    the modern era.
    """
    declared = legacy_extensions(capabilities)
    if not declared:
        return params
    return {**params, "_meta": {**params.get("_meta", {}), META_CAPABILITIES: {"extensions": declared}}}


async def negotiate(connection: Connection, server: str, capabilities: JsonObject = LEGACY_CAPABILITIES) -> Session:
    """Negotiate the era. Raises what the connection raises, or ProtocolViolation if no era fits.

    A legacy upstream is told `capabilities`, which then apply to all clients of the connection.
    """
    tasks = Tasks()
    try:
        modern = tasks.start(_discover(connection, server), f"{server} discover", awaited=True)
        await asyncio.wait({modern}, timeout=SILENCE)
        if modern.done():
            greeting = modern.result() or await _initialize(connection, server, capabilities)
        else:
            legacy = tasks.start(_initialize(connection, server, capabilities), f"{server} initialize", awaited=True)
            greeting = await _take_first(modern, legacy)
    finally:
        await tasks.close()
    return settle(connection, greeting)


async def meet_gateway(connection: Connection, server: str) -> Session:
    """The session with the gateway that runs a server. Raises what the connection raises.

    It is modern. It may be silent while its server starts, and what it refuses is a failure of its server: neither is a
    sign of the other era, and a handshake would reach the server.
    """
    connection.speak(MODERN_VERSION)
    return settle(connection, _read_greeting(server, MODERN_VERSION, await _request_discovery(connection)))


def settle(connection: Connection, greeting: Greeting) -> Session:
    """The session over a connection whose greeting is known."""
    connection.speak(greeting.protocol_version, {name: {} for name in unknown(greeting.capabilities)})
    return Session(connection, greeting)


async def _take_first(modern: "asyncio.Task[Greeting | None]", legacy: "asyncio.Task[Greeting]") -> Greeting:
    await asyncio.wait({modern, legacy}, return_when=asyncio.FIRST_COMPLETED)
    if modern.done() and modern.exception() is None and (greeting := modern.result()):
        return greeting
    try:
        return await legacy
    except Refused:  # a slow modern server rejects the handshake; its answer to discover is on the way
        if greeting := await modern:
            return greeting
        raise


async def _discover(connection: Connection, server: str) -> Greeting | None:
    """The modern greeting, or None if the upstream does not support it."""
    connection.speak(MODERN_VERSION)
    try:
        answer = await _request_discovery(connection)
    except Refused:
        return None
    except (Unavailable, Crashed) as problem:
        if http_status(problem) in (400, 404, 405, 406, 415, 422, 500, 501):
            return None  # a legacy HTTP server may reject the request before reading it
        raise
    if MODERN_VERSION not in as_list(answer.get("supportedVersions")):
        return None
    return _read_greeting(server, MODERN_VERSION, answer)


def _read_greeting(server: str, version: str, answer: JsonObject) -> Greeting:
    """What a server declares, without what is too large to be passed on."""
    meta = as_object(answer.get("_meta"))
    capabilities = as_object(answer.get("capabilities"))
    info = as_object(meta.get(META_SERVER_INFO) or answer.get("serverInfo"))
    instructions, fields = as_text(answer.get("instructions")), _unknown_fields(answer)
    cut: list[str] = []
    if weighs_over(capabilities, MAX_DECLARED):
        cut.append("capabilities")
        capabilities = {name: dict[str, Any]() for name in KNOWN_CAPABILITIES if name in capabilities}
    if weighs_over(info, MAX_DECLARED):
        cut.append("serverInfo")
        info = {name: as_text(info.get(name))[:200] for name in ("name", "version")}
    if len(instructions) > MAX_INSTRUCTIONS:
        cut.append("instructions")
        instructions = f"{instructions[:MAX_INSTRUCTIONS]}…"
    if weighs_over(fields, MAX_DECLARED):
        cut.append("other fields")
        fields = {}
    if cut:
        log.warning("server '%s' declares more than Wicket keeps; cut: %s", server, ", ".join(cut))
    behind = as_text(meta.get(BEHIND)) if version == MODERN_VERSION else ""
    return Greeting(version, capabilities, info, instructions, behind, fields)


def _unknown_fields(answer: JsonObject) -> JsonObject:
    fields = {name: value for name, value in answer.items() if name not in _KNOWN}
    meta = as_object(answer.get("_meta"))
    meta = {name: value for name, value in meta.items() if name not in (META_SERVER_INFO, BEHIND)}
    return {**fields, "_meta": meta} if meta else fields


async def _request_discovery(connection: Connection) -> JsonObject:
    """The answer to `server/discover`; requested again if the error names a version that we speak."""
    try:
        return await connection.request("server/discover", {"_meta": envelope()})
    except Refused as refusal:
        supported = as_list(as_object(refusal.error.get("data")).get("supported"))
        if refusal.rpc_code != UNSUPPORTED_VERSION or MODERN_VERSION not in supported:
            raise
    return await connection.request("server/discover", {"_meta": envelope()})


async def _initialize(connection: Connection, server: str, capabilities: JsonObject) -> Greeting:
    connection.speak("")
    answer = await connection.request(
        "initialize",
        {"protocolVersion": LATEST_LEGACY_VERSION, "capabilities": capabilities, "clientInfo": CLIENT_INFO},
    )
    version: Any = answer.get("protocolVersion")
    if version not in LEGACY_VERSIONS:
        raise ProtocolViolation(
            server,
            f"Server '{server}' speaks protocol version {repr(version)[:40]}, which Wicket does not know.",
            hint=f"Known are {', '.join(LEGACY_VERSIONS)} and {MODERN_VERSION}.",
        )
    connection.speak(version)
    await connection.notify("notifications/initialized")
    return _read_greeting(server, version, answer)
