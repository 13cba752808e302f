"""The registry over HTTP, in the API of the official MCP Registry: read, publish, delete.

    GET    /v0.1/servers                               a page: cursor, limit, search, updated_since, version
    GET    /v0.1/servers/{name}/versions               every version
    GET    /v0.1/servers/{name}/versions/{version}     one, or `latest`
    DELETE /v0.1/servers/{name}/versions/{version}     mark it deleted
    POST   /v0.1/publish                               a server.json
    GET    /openapi.json                               the description of all this

The guard has authenticated the request before anything here runs. Bodies contain no commands and start nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from wicket_mcp.catalog.pages import read_cursor, write_cursor
from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments, Denied, RateLimited, UnknownName, WicketError
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.registry.facade import RegistryFacade, response
from wicket_mcp.registry.server_json import MAX_BODY
from wicket_mcp.registry.service import Taken
from wicket_mcp.store.model import RecordQuery
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import (
    BodyTooLarge,
    Disconnected,
    Headers,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    read_body,
    send_json,
)
from wicket_mcp.surface.openapi import description

ROOT = "/v0.1/"
DESCRIPTION = "/openapi.json"
MAX_LIMIT = 100
_FLAGS = {"true": True, "false": False}
_STATUS = {RateLimited: 429, UnknownName: 404, Taken: 409, BodyTooLarge: 413, BadArguments: 400}
_RFC3339_LENGTH = 19  # of a date and a time without zone


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request as the routes see it."""

    method: str
    parts: Sequence[str]
    query: Mapping[str, str]
    principal: Principal


class Rest:
    """The routes."""

    authentication: Authentication = "optional"

    def __init__(self, facade: RegistryFacade) -> None:
        self._facade = facade

    @staticmethod
    def serves(path: str) -> bool:
        return path.startswith(ROOT) or path == DESCRIPTION

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if scope["path"] == DESCRIPTION:
            await _only(scope["method"], "GET", send, 200, description())
            return
        request = RestRequest(scope["method"], _parts(scope), _query(scope), principal)
        extra: Headers = ()
        try:
            status, body = 200, await self._route(request, headers, receive)
        except Disconnected:
            return
        except _NotAllowed as problem:
            status, body = 405, {"error": f"Use {problem.allowed}."}
            extra = ((b"allow", problem.allowed.encode()),)
        except WicketError as problem:
            status, body = _status(problem, principal), {"error": str(problem)}
            if isinstance(problem, RateLimited):
                extra = ((b"retry-after", str(problem.retry_after).encode()),)
        await send_json(send, status, body, extra)

    async def _route(self, request: RestRequest, headers: RequestHeaders, receive: Receive) -> JsonObject:
        match request.parts:
            case ["servers"]:
                return await self._list(_require_method(request, "GET"))
            case ["servers", name, "versions"]:
                return await self._versions(_require_method(request, "GET"), name)
            case ["servers", name, "versions", version]:
                _require_method(request, "GET, DELETE")
                if request.method == "DELETE":
                    return await self._delete(request, name, version)
                return await self._one(request, name, version)
            case ["publish"]:
                return await self._publish(_require_method(request, "POST"), headers, receive)
            case _:
                raise UnknownName("path", "/".join(request.parts)[:80], hint=f"{DESCRIPTION} names those there are.")

    async def _list(self, request: RestRequest) -> JsonObject:
        await self._facade.keys.admit(request.principal, "discover", "discovery")
        query = _record_query(request.query)
        records = await self._facade.registry.page(query)
        page = records[: query.limit - 1]
        metadata: JsonObject = {"count": len(page)}
        if len(records) > len(page):
            metadata["nextCursor"] = write_cursor(page[-1].name, page[-1].version)
        return {"servers": [response(record) for record in page], "metadata": metadata}

    async def _versions(self, request: RestRequest, name: str) -> JsonObject:
        await self._facade.keys.admit(request.principal, "discover", "discovery")
        records = await self._facade.registry.versions(name, deleted=_with_deleted(request.query))
        return {"servers": [response(record) for record in records], "metadata": {"count": len(records)}}

    async def _one(self, request: RestRequest, name: str, version: str) -> JsonObject:
        await self._facade.keys.admit(request.principal, "discover", "discovery")
        record = await self._facade.registry.version(name, version, deleted=_with_deleted(request.query))
        return response(record, await self._facade.describe(record, request.principal))

    async def _delete(self, request: RestRequest, name: str, version: str) -> JsonObject:
        await self._facade.keys.admit(request.principal, "register", "registration")
        return response(await self._facade.registry.delete(name, version, request.principal))

    async def _publish(self, request: RestRequest, headers: RequestHeaders, receive: Receive) -> JsonObject:
        await self._facade.keys.admit(request.principal, "register", "registration")
        data = await read_body(receive, headers, MAX_BODY)
        try:
            body: Any = decode(data, strict=True)
        except ValueError as problem:
            raise BadArguments(f"The body is not JSON: {problem}.", hint="Send a server.json.") from None
        return response(await self._facade.registry.publish(body, request.principal))


class _NotAllowed(Exception):
    def __init__(self, allowed: str) -> None:
        super().__init__(allowed)
        self.allowed = allowed


def _require_method(request: RestRequest, methods: str) -> RestRequest:
    if request.method not in methods.split(", "):
        raise _NotAllowed(methods)
    return request


def _parts(scope: Scope) -> list[str]:
    """The path below the root, split before decoding: a name contains a slash, encoded or not."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    text = raw.partition(b"?")[0].decode("latin-1")
    cut = [unquote(part, errors="replace") for part in text.removeprefix(ROOT).rstrip("/").split("/")]
    if len(cut) > 3 and cut[0] == "servers" and cut[3] == "versions":
        cut[1:3] = [f"{cut[1]}/{cut[2]}"]
    return cut


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True, errors="replace"))


def _record_query(parameters: Mapping[str, str]) -> RecordQuery:
    """The query from the parameters, with a limit of one extra record, which shows whether there is another page."""
    limit = parameters.get("limit", "30")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:4]) <= MAX_LIMIT and len(limit) < 4):
        raise BadArguments("limit is not a number from 1 to 100.", hint="Leave it out for 30.")
    since = _seconds(parameters["updated_since"]) if "updated_since" in parameters else None
    return RecordQuery(
        after=read_cursor(parameters["cursor"], str, str) if parameters.get("cursor") else ("", ""),
        limit=int(limit) + 1,
        search=parameters.get("search", ""),
        updated_since=since,
        version=parameters.get("version", ""),
        include_deleted=_with_deleted(parameters)
        or since is not None,  # a client that asks for changes needs deletions too
    )


def _with_deleted(parameters: Mapping[str, str]) -> bool:
    flag = _FLAGS.get(parameters.get("include_deleted", "false"))
    if flag is None:
        raise BadArguments("include_deleted is neither true nor false.")
    return flag


def _seconds(text: str) -> float:
    try:
        if len(text) < _RFC3339_LENGTH or text[10:11] not in "Tt ":
            raise ValueError
        moment = datetime.fromisoformat(text.upper().replace(" ", "T"))
        if moment.tzinfo is None:
            raise ValueError
        return moment.timestamp()
    except (ValueError, OverflowError):
        raise BadArguments(
            "updated_since is not a time.", hint="Give one such as 2026-01-31T12:00:00Z (RFC 3339, with zone)."
        ) from None


def _status(problem: WicketError, principal: Principal) -> int:
    if isinstance(problem, Denied):
        return 403 if principal.scopes - {"discover"} or not principal.name.startswith("anonymous") else 401
    for kind, status in (
        (RateLimited, 429),
        (UnknownName, 404),
        (Taken, 409),
        (BodyTooLarge, 413),
        (BadArguments, 400),
    ):
        if isinstance(problem, kind):
            return status
    return 500


async def _only(method: str, allowed: str, send: Send, status: int, body: JsonObject) -> None:
    if method == allowed:
        await send_json(send, status, body)
    else:
        await send_json(send, 405, {"error": f"Use {allowed}."}, ((b"allow", allowed.encode()),))
