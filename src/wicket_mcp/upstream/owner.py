"""A server whose process another gateway owns: reached through that owner, by plain modern MCP.

`OwnerLink` is a permanent connection to the owner: to the Unix socket of a worker, or to the port of a replica after an
HTTP upgrade (`surface/owned.py` is the other end). Messages are lines, as over stdio. Every request carries the epoch
of the claim and the principal that we vouch for; a message that belongs to a request names it in `for`. A request that
the owner rejected or did not receive counts as not sent: the supervisor connects again, which looks up the owner again.
An owner that owes answers and is silent is doubted (`silence.py`). Created by `connector.py`.
"""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast
from urllib.parse import quote, urlsplit

from wicket_mcp.codec import LARGE, decode, encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import (
    BadArguments,
    Crashed,
    Moved,
    Overloaded,
    Refused,
    TimedOut,
    Unavailable,
    UpstreamError,
    WicketError,
)
from wicket_mcp.framing import LineFramer, LineTooLong
from wicket_mcp.large_json import decode_off_loop
from wicket_mcp.model import JsonObject, Principal, as_object, as_text
from wicket_mcp.rpc import CONNECTION_WIDE, NO_CALLBACKS, Callbacks, note_sent, read_result
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.announcements import is_addressed
from wicket_mcp.upstream.connection import Host, Versioned
from wicket_mcp.upstream.ownership import Claim
from wicket_mcp.upstream.silence import Silence
from wicket_mcp.upstream.subscription import ACKNOWLEDGED, Subscription

PATH = "/owned/"
EPOCH = "Wicket-Epoch"
UPGRADE = "wicket-owned"
MOVED = "moved"
"""The error code of an owner that did nothing, because it is not the owner or is about to stop."""
LEAVING = "notifications/wicket/leaving"
"""The owner accepts nothing more on this connection, but answers what it has accepted."""
CONNECT_WITHIN = 2.0
ENVELOPE = 1024 * 1024
"""The most bytes that the envelope adds to the largest message."""
_MAY_HAVE_ACTED = "It may have acted: check before you try again."
_HEARD_UNASKED = CONNECTION_WIDE | {"notifications/message"}


class Vouch(NamedTuple):
    """Our statement about the principal, which the owner trusts."""

    header: Callable[[Principal, str, str], Mapping[str, str]]
    """For a principal, the owner's address and the path at which a connection is opened."""
    principal: Callable[[Principal, str], str]
    """For requests over a connection that was opened with this header."""


Doubt = Callable[[Claim], Awaitable[bool]]
"""Finds out about an owner that is silent: whether it has certainly stopped."""


class OwnerLost(Crashed):
    """The owner disconnected without answering what was sent."""


class _Waiting(NamedTuple):
    answer: "asyncio.Future[JsonObject]"
    callbacks: Callbacks


class OwnerLink(Versioned, asyncio.Protocol):
    """A Connection to the owner of a server. Open it with `OwnerLink.open`."""

    strays = 0  # the owner counts what its server says

    def __init__(
        self,
        server: str,
        claim: Claim,
        host: Host,
        principal: Principal,
        max_message: int,
        vouch: Vouch,
        doubt: Doubt,
    ) -> None:
        self._doubt = partial(doubt, claim)
        self._silence = Silence(lambda: bool(self._waiting), self._doubt, self._give_up)
        self._server = server
        self._claim = claim
        self._host = host
        self._max_message = max_message
        self._principal = principal
        """Who sends what belongs to no request of a client: the one whose process it is, or the gateway."""
        self._vouch = vouch
        self._opened_with = ""
        self._framer = LineFramer(max_message + ENVELOPE)
        self._head = b""
        loop = asyncio.get_running_loop()
        self._accepted: asyncio.Future[str] | None = loop.create_future()
        """Set to the owner's status line; None once the connection is open."""
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = itertools.count(1)
        self._unsent: list[tuple[int, bytes]] = []
        """Lines that are written at the end of this turn, with the number of their request (0: none)."""
        self._transport: asyncio.Transport | None = None
        self._ended = ""
        """Why nothing more can be sent."""
        self._closing = False
        self._subscription = Subscription(self)
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<OwnerLink {self._server} {self._claim.address} epoch {self._claim.epoch}>"

    @classmethod
    async def open(
        cls,
        server: str,
        claim: Claim,
        host: Host,
        *,
        principal: Principal,
        max_message: int,
        vouch: Vouch,
        doubt: Doubt,
    ) -> "OwnerLink":
        """Raises Moved if the owner cannot be reached or no longer owns the server."""
        link = cls(server, claim, host, principal, max_message, vouch, doubt)
        statement = vouch.header(principal, claim.address, f"{PATH}{server}")
        link._opened_with = next(iter(statement.values()), "")
        path = f"{PATH}{quote(server)}"
        words = {
            "Host": "localhost",
            "Connection": "Upgrade",
            "Upgrade": UPGRADE,
            "Content-Length": "0",
            EPOCH: str(claim.epoch),
            **statement,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in words.items())
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                transport = await _connect(lambda: link, claim.address)
                transport.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
                status = await cast("asyncio.Future[str]", link._accepted)
        except (OSError, TimeoutError) as problem:
            await link.close()
            if isinstance(problem, TimeoutError):
                await link._doubt()
            raise link._not_sent(
                f"The gateway that runs server '{server}' cannot be reached: {problem or 'no answer'}"
            ) from None
        if " 101 " not in f"{status} ":
            await link.close()
            raise link._not_sent(f"Server '{server}' now has another owner.")
        link._accepted = None
        return link

    # Called by the pool

    @property
    def slowed(self) -> bool:
        return False

    def stderr_tail(self) -> tuple[()]:
        return ()

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        if self._ended:
            raise self._not_sent(self._ended)
        number = next(self._numbers)
        note_sent(method, number)
        message: JsonObject = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        data = self._pack(message, callbacks.principal)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(answer, callbacks)
        self._silence.watch()
        try:
            self._write(data, number)
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                cancelled = {"method": "notifications/cancelled", "params": {"requestId": number}}
                self._write(self._pack({"jsonrpc": "2.0", **cancelled}))
            raise
        finally:
            del self._waiting[number]
            if self._ended and not self._waiting:
                self._hang_up()

    async def notify(self, method: str, params: JsonObject | None = None, principal: Principal | None = None) -> None:
        if self._ended:
            raise self._not_sent(self._ended)
        self._write(self._pack({"jsonrpc": "2.0", "method": method, "params": params or {}}, principal))

    async def listen(self, resources: Sequence[str] = ()) -> None:
        await self._subscription.listen(resources)

    async def close(self) -> None:
        self._closing = True
        await self._subscription.close()
        self._end(f"The connection to server '{self._server}' was closed.")
        await self._silence.close()
        await self._tasks.close()
        self._hang_up()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._silence.hear()
        if self._accepted is not None and not self._accepted.done():
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._accepted.set_result(head.partition(b"\r\n")[0].decode("latin-1"))
        try:
            for line in self._framer.feed(data):
                if len(line) < LARGE:
                    self._take(decode(line))
                else:
                    self._tasks.start(self._take_large(line), f"decode an answer of {self._server}")
        except (LineTooLong, ValueError) as problem:
            self._end(f"The owner of server '{self._server}' sent what cannot be read: {problem!r}.")
            self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_exception(ConnectionResetError("the connection was closed"))
        self._end(f"The gateway that runs server '{self._server}' disconnected.")

    # Our own methods

    def _give_up(self) -> None:
        """The owner stood still for so long that others may run the server."""
        self._end(f"The gateway that runs server '{self._server}' stands still.")
        if self._transport is not None:
            self._transport.abort()  # what is not written yet must not be read when it goes on

    async def _take_large(self, line: bytes) -> None:
        self._take(await decode_off_loop(line))

    def _take(self, message: JsonObject) -> None:
        if (number := message.get("for")) is not None:
            if (waiting := self._waiting.get(number)) is not None and not waiting.answer.done():
                self._hear(waiting.callbacks, message["method"], as_object(message.get("params")))
        elif message.get("method") == LEAVING:
            self._retire()
        elif (waiting := self._waiting.get(message.get("id", 0))) is None or waiting.answer.done():
            return  # it was cancelled
        elif as_object(as_object(message.get("error")).get("data")).get("code") == MOVED:
            waiting.answer.set_exception(self._not_sent(f"Server '{self._server}' now has another owner."))
            self._retire()
        else:
            try:
                waiting.answer.set_result(read_result(self._server, message))
            except Refused as refusal:
                waiting.answer.set_exception(_rebuild(self._server, refusal))

    def _hear(self, callbacks: Callbacks, method: str, params: JsonObject) -> None:
        if method == ACKNOWLEDGED:
            self._subscription.acknowledge()
        elif callbacks.notification is not None and method not in CONNECTION_WIDE:
            callbacks.notification(method, params)
        elif method in _HEARD_UNASKED or is_addressed(params):
            self._host.notification(method, params)

    def _pack(self, message: JsonObject, principal: Principal | None = None) -> bytes:
        """One line. Raises BadArguments for a message that the owner would not read."""
        vouched = self._vouch.principal(principal or self._principal, self._opened_with)
        data = encode({**message, "epoch": self._claim.epoch, "as": vouched})
        if len(data) > self._max_message:
            raise BadArguments(f"A message to server '{self._server}' may have {self._max_message} bytes at most.")
        return data + b"\n"

    def _write(self, data: bytes, number: int = 0) -> None:
        self._unsent.append((number, data))
        if len(self._waiting) <= 1:
            self._flush()
        elif len(self._unsent) == 1:  # others are in flight, and more may come in this turn: one system call for all
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(data for _, data in unsent))
        else:
            self._fail_unsent(unsent)

    def _fail_unsent(self, unsent: "list[tuple[int, bytes]]") -> None:
        for number, _ in unsent:
            if (waiting := self._waiting.get(number)) is not None and not waiting.answer.done():
                waiting.answer.set_exception(self._not_sent(f"The owner of server '{self._server}' disconnected."))

    def _not_sent(self, reason: str) -> Moved:
        return Moved(self._server, f"{reason} Nothing was sent.", hint="Try again; its owner is looked up again.")

    def _retire(self) -> None:
        """Send nothing more here, but wait for the answers to what was sent."""
        if not self._ended:
            self._ended = f"The gateway that runs server '{self._server}' is leaving."
            self._tell(self._not_sent(self._ended))
        if not self._waiting:
            self._hang_up()

    def _end(self, reason: str) -> None:
        """No more answers will come: what was sent may have been done."""
        unsent, self._unsent = self._unsent, []
        self._fail_unsent(unsent)
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(OwnerLost(self._server, reason, hint=_MAY_HAVE_ACTED))
        if not self._ended:
            self._ended = reason
            self._tell(OwnerLost(self._server, reason))

    def _tell(self, reason: UpstreamError) -> None:
        if not self._closing and self._accepted is None:
            self._host.on_closed(reason)

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _connect(protocol: Callable[[], asyncio.Protocol], address: str) -> asyncio.Transport:
    """A connection to `unix:/path` or `http://host:port`. Raises OSError."""
    loop = asyncio.get_running_loop()
    if address.startswith("unix:"):
        transport, _ = await loop.create_unix_connection(protocol, address.removeprefix("unix:"))
        return transport
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    transport, _ = await loop.create_connection(protocol, parts.hostname or "", port, ssl=secure or None)
    # A machine that is cut off closes nothing: the kernel probes the connection while it is silent.
    plain: socket.socket = transport.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return transport


def ownership_key(server: ServerConfig, principal: Principal) -> str:
    """The key to claim for a server's process: one for all, or one for each user."""
    return f"{server.name} for {principal.id}" if server.is_per_user else server.name


def _rebuild(server: str, refusal: Refused) -> WicketError:
    """The owner's error, restored to its type; a server's own error stays as it is."""
    code = as_text(as_object(refusal.error.get("data")).get("code"))
    kinds: dict[str, type[UpstreamError]] = {"unavailable": Unavailable, "crashed": Crashed, "timed_out": TimedOut}
    if code in kinds:
        return kinds[code](server, refusal.message)
    return Overloaded(refusal.message) if code == "overloaded" else refusal
