"""How the `bridge` vocabulary puts things: answers as indented JSON, problems as one line that begins with ❌."""

from typing import Any

from wicket_mcp.codec import pretty
from wicket_mcp.dialects.base import text
from wicket_mcp.errors import (
    Crashed,
    ProtocolViolation,
    Refused,
    TimedOut,
    Unavailable,
    UnknownName,
    WicketError,
)
from wicket_mcp.model import JsonObject
from wicket_mcp.registry import server_json
from wicket_mcp.registry.domains import VALID_FOR, challenge, timestamp
from wicket_mcp.registry.facade import Known, ServerHealth
from wicket_mcp.registry.health import Measured
from wicket_mcp.registry.managed import ManagedServer
from wicket_mcp.store.model import StoredDomain

_UNREACHABLE = (Unavailable, TimedOut, Crashed, ProtocolViolation)


def answer(value: Any) -> JsonObject:
    """A value as text and, where it is an object, as structured content."""
    result = text(pretty(value))
    return {**result, "structuredContent": value if isinstance(value, dict) else {"result": value}}


def done(words: str) -> JsonObject:
    return text(f"✅ {words}")


def problem_text(problem: WicketError, doing: str = "") -> str:
    """A problem in the seed's words: what failed, why, and what to do."""
    why = problem.message.rstrip(".")
    if isinstance(problem, UnknownName):
        why = f"{problem.kind.capitalize()} not found: '{problem.name}'"
    elif isinstance(problem, Refused):
        why = why if "not found" in why else f"the server answered with an error: {why} ({problem.rpc_code})"
    elif isinstance(problem, _UNREACHABLE):
        why = f"Server unreachable: {why}"
    return f"❌ {f'{doing}: ' if doing else ''}{why}. {problem.hint}".rstrip()


def failed(problem: WicketError, doing: str = "") -> JsonObject:
    detail: JsonObject = {"code": problem.code, "retryable": problem.retryable}
    if isinstance(problem, UnknownName):
        detail["kind"] = problem.kind
    if isinstance(problem, Refused):
        detail["error"] = problem.error
    retry_after = getattr(problem, "retry_after", None)
    if retry_after is not None:
        detail["retry_after"] = retry_after
    content = [{"type": "text", "text": problem_text(problem, doing)}]
    return {"content": content, "isError": True, "_meta": {"wicket/error": detail}}


def server(known: Known, live_tools: list[str] | None = None) -> JsonObject:
    """A registered server as `discover_mcp_servers` shows it."""
    body = known.record.body
    addresses = server_json.remotes(body)
    return {
        "id": known.id,
        "name": server_json.title(body),
        "description": server_json.long_description(body),
        "author": server_json.author(body),
        "version": known.record.version,
        "category": server_json.category(body),
        "tags": list(server_json.tags(body)),
        "docker_image": server_json.package(body, "oci"),
        "npm_package": server_json.package(body, "npm"),
        "pypi_package": server_json.package(body, "pypi"),
        "endpoint": addresses[0] if addresses else None,
        "tools": live_tools or list(server_json.tools(body)),
        "health_score": known.health_score,
        "usage_count": known.usage_count,
    }


def health(one: ServerHealth) -> JsonObject:
    return {
        "id": one.id,
        "name": one.title,
        **measured(one.main),
        "windows": {name: measured(window) for name, window in one.windows.items()},
    }


def measured(window: Measured) -> JsonObject:
    return {
        "status": window.status,
        "health_score": window.score,
        "last_check": None if window.last_check is None else timestamp(window.last_check),
        "response_time": window.response_time,
        "uptime_percentage": window.uptime,
        "error_rate": window.error_rate,
    }


def domain(claim: StoredDomain) -> JsonObject:
    shown: JsonObject = {"domain": claim.domain, "status": claim.state, "verified": claim.state == "verified"}
    if claim.state == "verified" and claim.verified_at is not None:
        return {
            **shown,
            "method": claim.method,
            "verified_at": timestamp(claim.verified_at),
            "expires_at": timestamp(claim.verified_at + VALID_FOR),
        }
    if claim.state == "expired":
        return {**shown, "message": "The time for this proof is over.", "action_required": "verify_domain"}
    if claim.problem:
        shown["message"] = claim.problem
    return {**shown, "action_required": "check_domain_ownership", **challenge(claim)}


def managed(one: ManagedServer) -> JsonObject:
    shown: JsonObject = {
        "name": one.name,
        "type": one.kind,
        "status": one.status,
        "tools": list(one.tools),
        "endpoint": one.endpoint,
    }
    return {**shown, "problem": one.problem} if one.problem else shown
