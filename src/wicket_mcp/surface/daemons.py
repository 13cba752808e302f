"""What happens in the user's daemons that share our state, for the dashboard of another gateway.

Asks each over its own socket, in a folder that only this user can enter; both ends check the other's user. A daemon
with another state, or one that does not answer quickly, is left out.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, ValidationError, convert, to_builtins

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import JsonObject, Principal, as_object
from wicket_mcp.shim.finding import CannotShare, check_peer
from wicket_mcp.shim.identity import SEPARATOR, runtime_folder
from wicket_mcp.surface.under_way import Glimpse, read

WITHIN = 0.5
LONGEST_ANSWER = 4 * 1024 * 1024


class Question(Struct, frozen=True):
    """What another gateway of the same user wants to know."""

    state: str
    """Its state folder: only a daemon with the same one answers."""
    principal: str
    scopes: tuple[str, ...]
    server: str = ""
    """The server whose last lines on stderr are wanted, or that is to be stopped."""
    stop: bool = False


def read_question(text: str) -> Question | None:
    try:
        return convert(decode(text.encode()), Question)
    except (ValidationError, ValueError):
        return None


class Daemons:
    """The daemons of this user with our state, except the one at `me`."""

    def __init__(self, state: Path, me: Path | None = None) -> None:
        self._state = str(state)
        self._me = me

    async def look_around(self, principal: Principal, server: str = "") -> Sequence[Glimpse]:
        question = Question(self._state, principal.name, tuple(principal.scopes), server)
        return [read(answer) for answer in await self._ask_all(question) if answer]

    async def stop_elsewhere(self, server: str, principal: Principal) -> None:
        """Stop a server there."""
        await self._ask_all(Question(self._state, principal.name, tuple(principal.scopes), server, stop=True))

    async def _ask_all(self, question: Question) -> list[JsonObject]:
        return await asyncio.gather(*(_ask(path, question) for path in self._list()))

    def _list(self) -> list[Path]:
        return [path for path in Path(runtime_folder()).glob("*.sock") if path != self._me]


async def _ask(path: Path, question: Question) -> JsonObject:
    """The answer of one daemon; empty if there is none."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(WITHIN):
            reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_ANSWER)
            check_peer(writer.get_extra_info("socket"))
            words = SEPARATOR.join(("wicket-control", "1", "about", encode(to_builtins(question)).decode()))
            writer.write(words.encode() + b"\n")
            return as_object(decode(await reader.readuntil(b"\n")))
    except (OSError, CannotShare, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return {}
    finally:
        if writer is not None:
            writer.close()
