"""OTLP: encodes spans, durations and log records, and sends them to a collector.

The few messages that we send are encoded here, field by field: with the SDK a span would cost ten times as much. The
tests decode them with the protocol's own classes. Knows nothing about MCP; `trace.py`, `durations.py` and
`audit_otlp.py` use it. Like the SDK, it reads OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE,
OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
"""

import asyncio
import logging
import os
import ssl
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol
from urllib.parse import unquote

import aiohttp

from wicket_mcp import __version__
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds over which entries are collected
BATCH = 512  # entries that are sent at once without waiting any longer
MOST = 4096  # waiting entries; more are dropped and counted
DEADLINE = 10.0  # seconds for one request to the collector
Attributes = Mapping[str, "str | int"]


def field(number: int, content: bytes) -> bytes:
    """A text, bytes or message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """An integer, or a value of an enumeration."""
    return _varint(number << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def fixed_field(number: int, value: int) -> bytes:
    """A time in nanoseconds, or a count."""
    return _varint(number << 3 | 1) + struct.pack("<Q", value)


def double_field(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def attributes(number: int, values: Attributes) -> bytes:
    """Every attribute as one entry of the repeated field `number`."""
    return b"".join(
        [
            (_common_attribute if isinstance(value, int) or len(value) < _SHORT else _new_attribute)(number, key, value)
            for key, value in values.items()
        ]
    )


def _new_attribute(number: int, key: str, value: str | int) -> bytes:
    content = number_field(3, value) if isinstance(value, int) else field(1, value.encode("utf-8", "replace"))
    return field(number, field(1, key.encode()) + field(2, content))


_SHORT = 64
_common_attribute = lru_cache(2048)(_new_attribute)
"""Methods, tools, versions and addresses repeat often."""


def _varint(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_SMALL = [bytes((value,)) for value in range(128)]
_SCOPE = field(1, field(1, b"wicket") + field(2, __version__.encode()))


class Encodable(Protocol):
    """An entry that is encoded when it is sent."""

    def encode(self) -> bytes: ...


Entry = bytes | Encodable


def request_of(entries: Iterable[Entry]) -> bytes:
    """The request with these entries; spans, metrics and log records are wrapped alike."""
    encoded = [entry if isinstance(entry, bytes) else entry.encode() for entry in entries]
    scope = _SCOPE + b"".join([field(2, entry) for entry in encoded])
    return field(1, field(1, attributes(1, _describe_us())) + field(2, scope))


class Collector:
    """Sends one kind of entry. Never blocks, never raises: what cannot be sent is dropped and counted."""

    def __init__(self, endpoint: str, signal: str) -> None:
        """`signal` is `traces`, `metrics` or `logs`."""
        self._address = f"{endpoint.rstrip('/')}/v1/{signal}"
        self._signal = signal
        self._entries: list[Entry] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks()
        self._session: aiohttp.ClientSession | None = None
        self._failing = False
        self.lost = 0

    def add(self, entry: Entry) -> None:
        """Send it within a few seconds, together with others."""
        if len(self._entries) >= MOST:
            self.lost += 1
            return
        self._entries.append(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)
        elif len(self._entries) == BATCH:
            self._flush()

    async def close(self) -> None:
        """Send the waiting entries; waits at most until the deadline for an unreachable collector."""
        await self._tasks.wait(DEADLINE)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._entries:
            await self.send(self._entries)
        await self._tasks.close()
        if self._session is not None:
            await self._session.close()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        entries, self._entries = self._entries, []
        self._tasks.start(self.send(entries), f"export {self._signal}")

    async def send(self, entries: list[Entry]) -> None:
        """Send these now."""
        try:
            if self._session is None:
                self._session = _open_session()
            headers = {"Content-Type": "application/x-protobuf", **_read_pairs("OTEL_EXPORTER_OTLP_HEADERS")}
            data = await asyncio.to_thread(request_of, entries)  # hundreds of them must not hold the loop
            async with self._session.post(self._address, data=data, headers=headers) as answer:
                problem = "" if answer.status < 300 else f"it answered {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as failure:
            problem = str(failure) or type(failure).__name__
        if problem:
            self.lost += len(entries)
            if not self._failing:  # once per outage
                log.warning("%s could not be sent to %s: %s", self._signal, self._address, problem)
        self._failing = bool(problem)


def _open_session() -> aiohttp.ClientSession:
    authority = os.environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE")
    trusted = ssl.create_default_context(cafile=authority) if authority else True
    timeout = aiohttp.ClientTimeout(total=DEADLINE)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted), timeout=timeout, trust_env=True)


def _describe_us() -> Attributes:
    configured = _read_pairs("OTEL_RESOURCE_ATTRIBUTES")
    named = os.environ.get("OTEL_SERVICE_NAME") or configured.get("service.name") or "wicket"
    return {"service.version": __version__, **configured, "service.name": named}


def _read_pairs(variable: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in os.environ.get(variable, "").split(","))
    return {name.strip(): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}
