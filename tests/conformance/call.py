"""One request as a fixture of the reference server sees it, in either era.

`ask` is the whole difference between the eras: a legacy client is sent a request and its answer awaited, a
modern one gets `input_required` and answers in its next try. Knows no fixture by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

from wicket_mcp.model import LEGACY_VERSIONS

Params = types.CallToolRequestParams | types.GetPromptRequestParams
A = TypeVar("A", bound=BaseModel)

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
ELICITATION = types.ClientCapabilities(elicitation=types.ElicitationCapability())
SAMPLING = types.ClientCapabilities(sampling=types.SamplingCapability())
ROOTS = types.ClientCapabilities(roots=types.RootsCapability())


class InputNeeded(Exception):
    """The request cannot go on before the client has answered; carries the result that says so."""

    def __init__(self, requests: types.InputRequests, state: str | None = None) -> None:
        super().__init__(", ".join(requests))
        self.result = types.InputRequiredResult(input_requests=requests, request_state=state)


def elicitation(message: str, properties: dict[str, Any], *required: str) -> types.ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


@dataclass(frozen=True)
class Call:
    """A tools/call or prompts/get, the connection it came on, and what its client has already answered."""

    ctx: ServerRequestContext[Any, Any]
    params: Params
    log_level: types.LoggingLevel = "debug"

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.params.arguments or {}

    @property
    def legacy(self) -> bool:
        return self.ctx.protocol_version in LEGACY_VERSIONS

    @property
    def state(self) -> str | None:
        return self.params.request_state

    def answer(self, key: str, kind: type[A]) -> A | None:
        """What the client answered under `key`, where it is of that kind."""
        given = (self.params.input_responses or {}).get(key)
        return given if isinstance(given, kind) else None

    def can(self, capability: types.ClientCapabilities) -> bool:
        return self.ctx.session.check_client_capability(capability)

    def demand(self, capability: types.ClientCapabilities) -> None:
        """Refuse the request where the client did not declare `capability`."""
        if not self.can(capability):
            data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=capability)
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                "The client did not declare a capability that this request needs.",
                data.model_dump(by_alias=True, exclude_none=True, mode="json"),
            )

    async def ask(self, key: str, request: types.InputRequest, kind: type[A], state: str | None = None) -> A:
        """The client's answer to `request`, over whichever way its era has."""
        if not self.legacy:
            given = self.answer(key, kind)
            if given is None:
                raise InputNeeded({key: request}, state)
            return given
        metadata = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        return await self.ctx.session.send_request(request, kind, metadata=metadata)

    async def log(self, level: types.LoggingLevel, text: str) -> None:
        """Tell the client, where it wants to hear of that level."""
        if LEVELS.index(level) >= LEVELS.index(self.log_level):
            await self.ctx.session.send_log_message(  # pyright: ignore[reportDeprecated]
                level, text, logger="reference", related_request_id=self.ctx.request_id
            )
