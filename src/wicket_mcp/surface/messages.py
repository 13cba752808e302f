"""Telling messages apart: is it JSON-RPC, and of which era?"""

from typing import Any

from wicket_mcp.errors import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION
from wicket_mcp.model import META_CAPABILITIES, META_VERSION, MODERN_VERSION, JsonObject, as_object
from wicket_mcp.surface.problems import RpcProblem


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
    meta = as_object(as_object(body.get("params")).get("_meta"))
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
