"""The user's other gateways on this machine that share our state, for the dashboard: daemons and gateways over HTTP.

A daemon answers on the socket on which it serves its clients, a gateway over HTTP on a socket for this alone (`Gate`).
Both are in a folder that only this user can enter, and both ends check the other's user. A gateway with another state,
or one that does not answer quickly, is left out.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.shim.finding import CannotShare, check_peer, prepare_folder
from wicket_mcp.shim.identity import SEPARATOR, runtime_folder
from wicket_mcp.surface.under_way import LOOK_WITHIN, Glimpse, read

log = logging.getLogger(__name__)

LONGEST_QUESTION = 64 * 1024
LONGEST_ANSWER = 4 * 1024 * 1024
QUESTION_WITHIN = 10.0
DAEMON, GATE = ".sock", ".gate"
_ABOUT = ("wicket-control", "1", "about")


class Question(Struct, frozen=True):
    """What another gateway of the same user wants to know."""

    state: str
    """Its state folder: only a gateway with the same one answers."""
    principal: str
    scopes: tuple[str, ...]
    server: str = ""
    """The server whose last lines on stderr are wanted, or that is to be stopped."""
    stop: bool = False
    alone: bool = False
    """Whether it asks about this process alone, because it asks the replicas itself."""

    @property
    def asker(self) -> Principal:
        return Principal(self.principal, frozenset(self.scopes))


def read_question(text: str, state: Path) -> Question | None:
    """The question; None if it is invalid, or meant for a gateway with another state."""
    try:
        question = convert(decode(text.encode()), Question)
    except (ValidationError, ValueError):
        return None
    return question if question.state == str(state) else None


class Neighbours:
    """The gateways of this user with our state, except the one at `me`."""

    def __init__(self, state: Path, me: Path, *, alone: bool) -> None:
        """With `alone` each is asked about itself only, not about its replicas."""
        self._state = str(state)
        self._me = me
        self._alone = alone

    async def look_around(
        self, principal: Principal, server: str = "", within: float = LOOK_WITHIN
    ) -> Sequence[Glimpse]:
        return [read(answer) for answer in await self._ask_all(principal, server, within) if answer]

    async def stop_elsewhere(self, server: str, principal: Principal) -> None:
        """Stop a server there."""
        await self._ask_all(principal, server, LOOK_WITHIN, stop=True)

    async def _ask_all(
        self, principal: Principal, server: str, within: float, *, stop: bool = False
    ) -> list[JsonObject]:
        question = Question(self._state, principal.id, tuple(principal.scopes), server, stop, self._alone)
        return await asyncio.gather(*(_ask(path, question, within) for path in self._list()))

    def _list(self) -> list[Path]:
        sockets = Path(runtime_folder()).glob("*")
        return [path for path in sockets if path.suffix in (DAEMON, GATE) and path != self._me]


async def _ask(path: Path, question: Question, within: float) -> JsonObject:
    """The answer of one gateway; empty if there is none."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_ANSWER)
            check_peer(writer.get_extra_info("socket"))
            words = SEPARATOR.join((*_ABOUT, encode(to_builtins(question)).decode()))
            writer.write(words.encode() + b"\n")
            return as_object(decode(await reader.readuntil(b"\n")))
    except ConnectionRefusedError:
        _forget(path)
        return {}
    except (OSError, CannotShare, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return {}
    finally:
        if writer is not None:
            writer.close()


def _forget(path: Path) -> None:
    """Remove the socket of a gateway that was killed; a daemon's belongs to the holder of its lock."""
    if path.suffix == GATE:
        path.unlink(missing_ok=True)


class Gate:
    """Answers the neighbours of a gateway over HTTP. `answer` gets a question that is meant for us."""

    def __init__(self, state: Path, answer: Callable[[Question], Awaitable[JsonObject]]) -> None:
        self._state = state
        self._answer = answer
        self._server: asyncio.Server | None = None
        self.path = Path(runtime_folder()) / f"{secrets.token_hex(8)}{GATE}"

    async def open(self) -> None:
        """Where there can be no such socket, the dashboards of others do not show us, and that is all."""
        try:
            prepare_folder(str(self.path.parent))
            self._server = await asyncio.start_unix_server(self._serve, sock=self._listen(), limit=LONGEST_QUESTION)
        except (OSError, CannotShare) as problem:
            log.info("the dashboards of this user's other gateways do not show this one: %s", problem)

    def _listen(self) -> socket.socket:
        """A listening socket that nobody sees before it listens: one that does not is taken for a dead one's."""
        hidden = self.path.with_suffix(".new")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(str(hidden))
            sock.listen()
            hidden.rename(self.path)
        except OSError:
            sock.close()
            raise
        return sock

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, CannotShare, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            check_peer(writer.get_extra_info("socket"))
            async with asyncio.timeout(QUESTION_WITHIN):
                words = (await reader.readuntil(b"\n")).decode("utf-8", "replace").rstrip("\n").split(SEPARATOR)
                question = read_question(words[-1], self._state) if tuple(words[:-1]) == _ABOUT else None
                writer.write(encode({} if question is None else await self._answer(question)) + b"\n")
                await writer.drain()
        writer.close()
