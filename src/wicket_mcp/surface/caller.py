"""The client behind one request, as the rest of the gateway sees it.

What a legacy client is asked goes through the JSON-RPC peer (`rpc.py`) that all its requests share: its answers
come with other requests than the one that asked. The protocol's handlers (`protocol.py`) make these.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from wicket_mcp.errors import Unasked
from wicket_mcp.model import (
    JsonObject,
    ListKind,
    Principal,
)
from wicket_mcp.rpc import Rpc

if TYPE_CHECKING:
    from wicket_mcp.calls.task_wait import Followed

Send = Callable[[JsonObject], None]


class RequestCaller(msgspec.Struct):
    """Implements `Caller` for one request of one client."""

    principal: Principal
    session: str
    send: Send
    """Hands the client a message that belongs to this request."""
    capabilities: JsonObject = msgspec.field(default_factory=dict[str, Any])
    log_level: str = ""
    resumes: bool = False
    questions: Rpc | None = None
    """What asks a legacy client; a modern one is asked by `input_required`."""
    client_name: str = ""
    followed: "Followed | None" = None
    """Set where the request may become a task of ours."""

    def admit_as(self, principal: Principal) -> None:
        """Go on as the same person with what a profile leaves of their rights."""
        self.principal = principal

    def notify(self, method: str, params: JsonObject) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self.questions is None:
            # Only calls, prompts and reads can give `input_required` (held_calls.py).
            raise Unasked(f"{method} cannot be asked during this request.", hint="Ask during a call.")
        return await self.questions.request(method, params, send=self.send)


@dataclass
class LegacyClient:
    """What a legacy client said of itself once, for all its requests."""

    push: Send
    """Hands the client a message that belongs to no request."""
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str = "info"
    name: str = ""
    version: str = ""
    id_prefix: str = "wicket-"
    """Begins the ids of our questions. Unlike any other's where a client outlives who serves it."""
    questions: Rpc = field(init=False)
    """What we ask it: the ids say that they are ours. It is not for what the client asks."""
    watching: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """The resources it subscribed to, and how to end each subscription."""

    def __post_init__(self) -> None:
        self.questions = Rpc("the client", self.push, id_prefix=self.id_prefix)

    def introduce(self, capabilities: JsonObject, name: str, version: str = "") -> None:
        """What it said in its handshake, and which version of the protocol came of it."""
        self.capabilities, self.name, self.version = capabilities, name, version

    def want_logs(self, level: str) -> None:
        """It wants log messages from this level on."""
        self.log_level = level

    def caller(self, principal: Principal, session: str, send: Send) -> RequestCaller:
        return RequestCaller(
            principal,
            session,
            send,
            self.capabilities,
            self.log_level,
            resumes=False,
            questions=self.questions,
            client_name=self.name,
        )

    def resource_updated(self, uri: str, notice: JsonObject) -> None:
        self.push({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {**notice, "uri": uri}})

    def list_changed(self, kinds: Iterable[ListKind]) -> None:
        for kind in kinds:
            self.push({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})

    def leave(self) -> None:
        """The client is gone: end what it subscribed to."""
        while self.watching:
            self.watching.popitem()[1]()
