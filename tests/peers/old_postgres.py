"""A network peer that says it is PostgreSQL of a given version, lets everybody in, and answers nothing after that."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_SSL_REQUEST = 80877103


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _status(name: str, value: str) -> bytes:
    return _message(b"S", f"{name}\0{value}\0".encode())


@asynccontextmanager
async def old_postgres(version: str) -> AsyncGenerator[int]:
    """Its port."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            if struct.unpack("!i", body[:4])[0] != _SSL_REQUEST:
                break
            writer.write(b"N")
        settings = {"server_version": version, "client_encoding": "UTF8", "standard_conforming_strings": "on"}
        writer.write(_message(b"R", struct.pack("!i", 0)))
        writer.write(b"".join(_status(*setting) for setting in settings.items()))
        writer.write(_message(b"Z", b"I"))
        while kind := await reader.read(1):  # every statement works, and says nothing
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            await reader.readexactly(length - 4)
            if kind in b"QS":
                writer.write(_message(b"C", b"SET\0") + _message(b"Z", b"I"))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
