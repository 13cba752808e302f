"""The OpenAPI description of the registry's REST API, as it is served at `/openapi.json`."""

from typing import Any

from wicket_mcp import __version__
from wicket_mcp.model import JsonObject
from wicket_mcp.registry.server_json import OFFICIAL, SCHEMAS

_ERROR: JsonObject = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What is wrong, and what to do."}},
    "required": ["error"],
}
_TIME: JsonObject = {"type": "string", "format": "date-time"}
_NAME: JsonObject = {
    "name": "serverName",
    "in": "path",
    "required": True,
    "description": "The server's name, URL-encoded: com.example%2Fmy-server.",
    "schema": {"type": "string", "minLength": 3, "maxLength": 200},
    "example": "io.github.modelcontextprotocol%2Ffilesystem",
}
_VERSION: JsonObject = {
    "name": "version",
    "in": "path",
    "required": True,
    "description": "A version, URL-encoded, or `latest`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_RESPONSE: JsonObject = {
    "type": "object",
    "properties": {
        "server": {"$ref": "#/components/schemas/ServerDetail"},
        "_meta": {
            "type": "object",
            "properties": {
                OFFICIAL: {
                    "type": "object",
                    "properties": {
                        "status": {"enum": ["active", "deprecated", "deleted"]},
                        "publishedAt": _TIME,
                        "updatedAt": _TIME,
                        "isLatest": {"type": "boolean"},
                    },
                    "required": ["status", "publishedAt", "updatedAt", "isLatest"],
                },
                "wicket/registry": {
                    "type": "object",
                    "description": "What is measured here.",
                    "properties": {
                        "health_score": {"type": ["integer", "null"], "minimum": 0, "maximum": 100},
                        "usage_count": {"type": "integer", "minimum": 0},
                    },
                },
            },
        },
    },
    "required": ["server", "_meta"],
}
_LIST: JsonObject = {
    "type": "object",
    "properties": {
        "servers": {"type": "array", "items": {"$ref": "#/components/schemas/ServerResponse"}},
        "metadata": {
            "type": "object",
            "properties": {"nextCursor": {"type": "string"}, "count": {"type": "integer", "minimum": 0}},
        },
    },
    "required": ["servers"],
}


def description() -> JsonObject:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wicket registry",
            "version": __version__,
            "description": "The registry of MCP servers, in the API of the official MCP Registry.",
        },
        "security": [{"key": []}],
        "paths": {
            "/v0.1/servers": {"get": _list()},
            "/v0.1/servers/{serverName}/versions": {"get": _versions()},
            "/v0.1/servers/{serverName}/versions/{version}": {"get": _one(), "delete": _delete()},
            "/v0.1/publish": {"post": _publish()},
        },
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {**SCHEMAS, "ServerResponse": _RESPONSE, "ServerList": _LIST, "Error": _ERROR},
        },
    }


def _operation(name: str, summary: str, answer: str, errors: tuple[int, ...], **more: Any) -> JsonObject:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": _content("The answer.", answer),
            **{str(status): _content(_MEANING[status], "Error") for status in (*errors, 401, 403, 429)},
        },
        **more,
    }


_MEANING = {
    400: "Something in the request is wrong.",
    401: "No usable key was given.",
    403: "The key does not allow it.",
    404: "There is no such server or version.",
    409: "That version exists already.",
    413: "The body is too large.",
    429: "Asked too often; `Retry-After` says how many seconds to wait.",
}


def _content(text: str, schema: str) -> JsonObject:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _query(name: str, text: str, **schema: Any) -> JsonObject:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}


def _include_deleted(text: str) -> JsonObject:
    return _query("include_deleted", text, type="boolean", default=False)


def _list() -> JsonObject:
    return _operation(
        "listServers",
        "List servers, page by page, by name and version",
        "ServerList",
        (400,),
        parameters=[
            _query("cursor", "Where the last page ended: its metadata.nextCursor.", type="string", maxLength=1000),
            _query("limit", "Most servers on a page.", type="integer", minimum=1, maximum=100, default=30),
            _query("search", "Part of the name.", type="string", maxLength=200),
            _query("updated_since", "Only what changed since then (RFC 3339).", **_TIME),
            _query("version", "`latest`, or one version.", type="string", maxLength=255),
            _include_deleted("Deleted versions too; always with updated_since."),
        ],
    )


def _versions() -> JsonObject:
    return _operation(
        "listVersions",
        "All versions of a server, newest first",
        "ServerList",
        (400, 404),
        parameters=[_NAME, _include_deleted("Deleted versions too.")],
    )


def _one() -> JsonObject:
    return _operation(
        "getVersion",
        "One version of a server",
        "ServerResponse",
        (400, 404),
        parameters=[_NAME, _VERSION, _include_deleted("Also when it was deleted.")],
    )


def _delete() -> JsonObject:
    return _operation(
        "deleteVersion",
        "Mark a version as deleted",
        "ServerResponse",
        (404,),
        parameters=[_NAME, _VERSION],
    )


def _publish() -> JsonObject:
    schema = {"$ref": "#/components/schemas/ServerDetail"}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return _operation("publish", "Publish a version of a server", "ServerResponse", (400, 409, 413), requestBody=body)
