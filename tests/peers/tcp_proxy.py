"""A cable between somebody and a server, with one fault at a time: pulled out, or silent.

`async with Cable(port) as cable`: what connects to `cable.port` is passed on to `port` of this machine. `pull()` ends
all connections and refuses others until `plug()`. While `silent`, connections stay open and nothing passes. `events`
tells what happened, in order. `DeafCable` lets everything of PostgreSQL pass but its notifications.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from types import TracebackType

_NOTIFICATION = ord("A")
_HEAD = 5  # a letter, and the length of the rest including itself


class Cable:
    """See the module's docstring."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.silent = False
        self.events: list[str] = []
        self.changed = asyncio.Event()
        """Set with every event."""
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "Cable":
        await self.plug()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.pull()

    async def plug(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def pull(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    def filtered(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
        """What the server says, as it is passed on."""
        return _read(reader)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tell("connected")
        ends = {writer}
        self._writers |= ends
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(back)
            self._writers |= ends
            await asyncio.gather(self._copy(_read(reader), back), self._copy(self.filtered(there), writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tell("closed")
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _copy(self, source: AsyncGenerator[bytes], target: asyncio.StreamWriter) -> None:
        try:
            async for data in source:
                if not self.silent:
                    target.write(data)
        finally:
            with contextlib.suppress(OSError):
                target.close()

    def _tell(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()


async def _read(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while data := await reader.read(65536):
        yield data


class DeafCable(Cable):
    """Its clients must say `sslmode=disable` and `gssencmode=disable`: then all that the server says is messages."""

    def filtered(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
        return self._without_notifications(reader)

    async def _without_notifications(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
        while head := await reader.readexactly(_HEAD):
            message = head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
            if head[0] == _NOTIFICATION:
                self._tell("swallowed")
            else:
                yield message
