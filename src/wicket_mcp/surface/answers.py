"""A request's outcome as a JSON-RPC response: the one place where a problem becomes an error object."""

import logging
from typing import Any

from wicket_mcp.errors import INTERNAL_ERROR, WicketError, to_rpc
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request

log = logging.getLogger(__name__)


async def respond(protocol: Protocol, request: Request) -> JsonObject:
    """The response to `request`, whatever happens on the way."""
    try:
        return {"jsonrpc": "2.0", "id": request.id, "result": await protocol.answer(request)}
    except WicketError as problem:
        return error_response(request.id, problem)
    except Exception:  # the boundary: a defect of ours costs this request, not the connection
        log.exception("%s failed", request.method)
        return {
            "jsonrpc": "2.0",
            "id": request.id,
            "error": {"code": INTERNAL_ERROR, "message": "A defect in Wicket; its log has the details."},
        }


def error_response(number: Any, problem: WicketError) -> JsonObject:
    error = problem.to_error() if isinstance(problem, RpcProblem) else to_rpc(problem)
    return {"jsonrpc": "2.0", "id": number, "error": error}
