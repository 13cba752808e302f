"""The client behind one request, as the core sees it, and what a legacy client was asked and has not answered yet."""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from wicket_mcp.errors import Refused, Unasked
from wicket_mcp.model import META_CAPABILITIES, META_LOG_LEVEL, JsonObject, ListKind, Principal, as_object, as_text

Send = Callable[[JsonObject], None]


class Questions:
    """Requests of ours to one legacy client. Ids are ours and say so."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[str, asyncio.Future[JsonObject]] = {}

    async def ask(self, send: Send, method: str, params: JsonObject) -> JsonObject:
        """The client's result. Raises Refused with the client's own error. The call's deadline is ours too."""
        number = f"wicket-{next(self._numbers)}"
        reply: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._open[number] = reply
        send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            return await reply
        except asyncio.CancelledError:
            gone = {"requestId": number, "reason": "the call that asked has ended"}
            send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
            raise
        finally:
            self._open.pop(number, None)

    def answer(self, message: JsonObject) -> None:
        """Take in a response of the client; one that nobody waits for is dropped."""
        reply = self._open.get(str(message.get("id")))
        if reply is None or reply.done():
            return
        if "error" in message:
            reply.set_exception(Refused("the client", as_object(message["error"])))
        else:
            reply.set_result(as_object(message.get("result")))


@dataclass(slots=True)
class RequestCaller:
    """Implements `Caller` for one request of one client."""

    principal: Principal
    session: str
    send: Send
    """Hands the client a message that belongs to this request."""
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str = ""
    resumes: bool = False
    questions: Questions | None = None

    def notify(self, method: str, params: JsonObject) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self.questions is None:
            # A modern client is asked by `input_required` (held.py), which only calls, prompts and reads can give.
            raise Unasked(f"{method} cannot be asked during this request.", hint="Ask during a call.")
        return await self.questions.ask(self.send, method, params)


def modern_caller(principal: Principal, session: str, send: Send, meta: JsonObject) -> RequestCaller:
    """The caller of a modern request, which says all about itself in its `_meta`."""
    capabilities = as_object(meta.get(META_CAPABILITIES))
    return RequestCaller(principal, session, send, capabilities, as_text(meta.get(META_LOG_LEVEL)), resumes=True)


@dataclass
class LegacyClient:
    """What a legacy client said of itself once, for all its requests."""

    push: Send
    """Hands the client a message that belongs to no request."""
    capabilities: JsonObject = field(default_factory=dict[str, Any])
    log_level: str = "info"
    questions: Questions = field(default_factory=Questions)
    watching: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """The resources it subscribed to, and how to end each subscription."""

    def caller(self, principal: Principal, session: str, send: Send) -> RequestCaller:
        return RequestCaller(
            principal, session, send, self.capabilities, self.log_level, resumes=False, questions=self.questions
        )

    def resource_updated(self, uri: str) -> None:
        self.push({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})

    def list_changed(self, kinds: Iterable[ListKind]) -> None:
        for kind in kinds:
            self.push({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"})

    def leave(self) -> None:
        """The client is gone: end what it subscribed to."""
        while self.watching:
            self.watching.popitem()[1]()
