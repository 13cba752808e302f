"""The output of the `bridge` vocabulary: answers as indented JSON, errors as one line that begins with ❌."""

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
from wicket_mcp.registry.facade import RatedRecord, ServerHealth
from wicket_mcp.registry.health import Measurement
from wicket_mcp.registry.managed import ManagedServer
from wicket_mcp.store.model import StoredDomain

_UNREACHABLE = (Unavailable, TimedOut, Crashed, ProtocolViolation)


def answer(value: Any) -> JsonObject:
    """A value as text and, if it is an object, as structured content."""
    result = text(pretty(value))
    return {**result, "structuredContent": value if isinstance(value, dict) else {"result": value}}


def success(words: str) -> JsonObject:
    return text(f"✅ {words}")


def problem_text(problem: WicketError, doing: str = "") -> str:
    """An error in this vocabulary's words: what failed, why, and what to do."""
    why = problem.message.rstrip(".")
    if isinstance(problem, UnknownName):
        why = f"{problem.kind.capitalize()} not found: '{problem.name}'"
    elif isinstance(problem, Refused):
        why = why if "not found" in why else f"the server answered with an error: {why} ({problem.rpc_code})"
    elif isinstance(problem, _UNREACHABLE):
        why = f"Server unreachable: {why}"
    return f"❌ {f'{doing}: ' if doing else ''}{why}. {problem.hint}".rstrip()


def failure(problem: WicketError, doing: str = "") -> JsonObject:
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


def server(known: RatedRecord, live_tools: list[str] | None = None) -> JsonObject:
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


def health(report: ServerHealth) -> JsonObject:
    return {
        "id": report.id,
        "name": report.title,
        **measurement(report.main),
        "windows": {name: measurement(window) for name, window in report.windows.items()},
    }


def measurement(window: Measurement) -> JsonObject:
    return {
        "status": window.status,
        "health_score": window.score,
        "last_check": None if window.last_check is None else timestamp(window.last_check),
        "response_time": window.response_time,
        "uptime_percentage": window.uptime,
        "error_rate": window.error_rate,
    }


def domain(claim: StoredDomain) -> JsonObject:
    body: JsonObject = {"domain": claim.domain, "status": claim.state, "verified": claim.state == "verified"}
    if claim.state == "verified" and claim.verified_at is not None:
        return {
            **body,
            "method": claim.method,
            "verified_at": timestamp(claim.verified_at),
            "expires_at": timestamp(claim.verified_at + VALID_FOR),
        }
    if claim.state == "expired":
        return {**body, "message": "The time for this proof is over.", "action_required": "verify_domain"}
    if claim.problem:
        body["message"] = claim.problem
    return {**body, "action_required": "check_domain_ownership", **challenge(claim)}


def managed_server(entry: ManagedServer) -> JsonObject:
    body: JsonObject = {
        "name": entry.name,
        "type": entry.kind,
        "status": entry.status,
        "tools": list(entry.tools),
        "endpoint": entry.endpoint,
    }
    return {**body, "problem": entry.problem} if entry.problem else body
