"""A server within the test's own process: the test itself decides what each of its connections does, and when.

It stands where a transport would: it is the network peer, below `Connection`; everything above is the real thing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Crashed, Refused
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Host
from wicket_mcp.upstream.era import Greeting, Session

LEGACY = Greeting("2025-11-25", {"resources": {"subscribe": True}})


@dataclass(eq=False)
class Asked:
    """A request that has arrived; `reply` is what it waits for."""

    method: str
    params: JsonObject
    callbacks: Callbacks
    reply: "asyncio.Future[JsonObject]"


@dataclass(eq=False)
class ScriptedConnection:
    """One connection. Answers at once with an empty result, unless it is `silent`."""

    host: Host
    silent: bool = False
    protocol_version: str = ""
    relayed: JsonObject | None = None
    received: "asyncio.Queue[Asked]" = field(default_factory=asyncio.Queue[Asked])
    log: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Every request: its method and what it is about."""
    strays: int = 0
    slowed: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    refuses: frozenset[str] = frozenset()
    """Resources whose changes it does not report, nor any other's beside them."""
    listening: list[str] = field(default_factory=list[str])
    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    def stderr_tail(self) -> Sequence[str]:
        return ()

    def speak(self, version: str, relayed: JsonObject | None = None) -> None:
        self.protocol_version, self.relayed = version, relayed

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        if self.closing.is_set():
            raise Crashed("x", "The connection is closed.")
        self.log.append((method, str(params.get("uri", params.get("name", "")))))
        asked = Asked(method, params, callbacks, asyncio.get_running_loop().create_future())
        self.received.put_nowait(asked)
        return await asked.reply if self.silent else {}

    async def notify(
        self, method: str, params: JsonObject | None = None, principal: Principal | None = None
    ) -> None: ...

    async def listen(self, resources: Sequence[str] = ()) -> None:
        self.listening = [] if self.refuses.intersection(resources) else list(resources)
        if self.refuses.intersection(resources):
            raise Refused("x", {"code": -32602, "message": "no such resource"})

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()

    def die(self) -> None:
        self.closing.set()
        self.host.on_closed(Crashed("x", "The connection broke."))


class ScriptedServer:
    """Every connection that was made to it, in order. What they do is set before they are made."""

    def __init__(self, *, silent: bool = False, slow_to_close: bool = False, greeting: Greeting = LEGACY) -> None:
        self.connections: list[ScriptedConnection] = []
        self.greeting = greeting
        self.refuses: frozenset[str] = frozenset()
        self.dies_after_greeting = 0
        """How many of the next connections end before anybody can use them."""
        self._silent = silent
        self._slow_to_close = slow_to_close

    async def open(self, config: ServerConfig, host: Host, principal: Principal) -> Session:
        connection = ScriptedConnection(host, self._silent, refuses=self.refuses)
        if not self._slow_to_close:
            connection.may_close.set()
        self.connections.append(connection)
        await asyncio.sleep(0)
        if self.dies_after_greeting:
            self.dies_after_greeting -= 1
            connection.die()
        return Session(connection, self.greeting)


async def turns(count: int = 10) -> None:
    """Let the loop turn: whatever is ready to run has run afterwards."""
    for _ in range(count):
        await asyncio.sleep(0)
