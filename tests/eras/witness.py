"""Learns, without waiting for any time to pass, what becomes of a call that never answers."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Witness:
    """The other end of the socket that the upstream's tool `hang` connects to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._connections: list[asyncio.StreamWriter] = []

    async def began(self) -> None:
        """The call has reached the upstream."""
        assert await self._lines.get() == "hanging"

    async def ended(self) -> str:
        """How it ended there: `cancelled`, or `gone` when the upstream went away with it."""
        return await self._lines.get()

    @property
    def silent(self) -> bool:
        """Nothing was heard since the last question."""
        return self._lines.empty()

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(writer)
        while line := await reader.readline():
            self._lines.put_nowait(line.decode().strip())
        self._lines.put_nowait("gone")
        writer.close()

    async def close(self) -> None:
        """Leave no connection to outlive the loop; the server itself does not wait for them before Python 3.12."""
        for writer in self._connections:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def witness() -> AsyncGenerator[Witness]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "witness")
        seen = Witness(path)
        async with await asyncio.start_unix_server(seen.listen, path):
            try:
                yield seen
            finally:
                await seen.close()
