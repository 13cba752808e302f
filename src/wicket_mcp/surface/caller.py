"""The client behind one request, as the rest of the gateway sees it.

Questions to a legacy client go through the JSON-RPC peer (`rpc.py`) that all its requests share, because its answers
arrive in other HTTP requests. Created by the protocol's handlers (`protocol.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from wicket_mcp.errors import Unasked
from wicket_mcp.extensions import GROUPS, declares
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
    """Sends the client a message that belongs to this request."""
    capabilities: JsonObject = msgspec.field(default_factory=dict[str, Any])
    log_level: str = ""
    resumes: bool = False
    questions: Rpc | None = None
    """Sends questions to a legacy client; a modern client is asked by `input_required`."""
    client_name: str = ""
    followed: "Followed | None" = None
    """Set when the request may become a task of ours."""

    def admit_as(self, principal: Principal) -> None:
        """Continue as the same person, with the rights that a profile leaves them."""
        self.principal = principal

    def notify(self, method: str, params: JsonObject) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self.questions is None:
            # Only calls, prompts and reads can return `input_required` (held_calls.py).
            raise Unasked(f"{method} cannot be asked during this request.", hint="Ask during a call.")
        return await self.questions.request(method, params, send=self.send)


@dataclass
class LegacyClient:
    """What a legacy client declared in its handshake, for all its requests."""

    push: Send
    """Sends the client a message that belongs to no request."""
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str = "info"
    name: str = ""
    version: str = ""
    id_prefix: str = "wicket-"
    """The prefix of our question ids. Unique for a client that may outlive the process that serves it."""
    questions: Rpc = field(init=False)
    """Our questions to the client; the prefix marks their ids as ours. Not used for the client's own requests."""
    watching: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """The resources it subscribed to, and how to end each subscription."""

    def __post_init__(self) -> None:
        self.questions = Rpc("the client", self.push, id_prefix=self.id_prefix)

    def introduce(self, capabilities: JsonObject, name: str, version: str = "") -> None:
        """Record the client's handshake and the negotiated protocol version."""
        self.capabilities, self.name, self.version = capabilities, name, version

    def want_logs(self, level: str) -> None:
        """Send the client log messages of this level and above."""
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

    def list_changed(self, lists: Mapping[ListKind, JsonObject]) -> None:
        """Tell the client that these lists have changed, with what servers said about it."""
        for kind, fields in lists.items():
            if kind == "groups" and not declares(self.capabilities, GROUPS):
                continue
            params = {"params": fields} if fields else {}
            self.push({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", **params})

    def announce(self, news: tuple[str, JsonObject] | None) -> None:
        """Pass a notification of an unknown extension on to the client, as its server sent it."""
        if news is not None:
            self.push({"jsonrpc": "2.0", "method": news[0], **({"params": news[1]} if news[1] else {})})

    def leave(self) -> None:
        """The client has disconnected: end its subscriptions."""
        while self.watching:
            self.watching.popitem()[1]()
