"""The smallest tools of whoever answers an HTTP request: headers, a bounded body, a JSON response. Decides nothing."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, TypeAlias

from wicket_mcp.codec import encode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
_NONE: frozenset[bytes] = frozenset()


CONNECTION = "wicket.connection"
"""Under which a request's scope has its connection."""


class Connection(Protocol):
    """What a request may know of its connection: whether the client has left, and when it does."""

    lost: bool
    on_lost: Callable[[], None] | None


class Disconnected(Exception):
    """The client left before its message was complete."""


class BodyTooLarge(BadArguments):
    """A body beyond the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A body may have {limit} bytes at most.")


class RequestHeaders:
    """The headers of one request, read once: names in lower case, values of one that is repeated joined by a comma."""

    __slots__ = ("_values", "raw", "repeated")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self.repeated = _NONE
        """The names of headers that appear more than once."""
        self._values = dict(raw)
        if len(self._values) != len(raw):
            names = [name for name, _ in raw]
            self.repeated = frozenset(name for name in self._values if names.count(name) > 1)
            for name in self.repeated:
                self._values[name] = b", ".join(value for key, value in raw if key == name)

    def get(self, name: bytes) -> str | None:
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")


async def read_body(receive: Receive, headers: RequestHeaders, limit: int) -> bytes:
    """The body. Raises BodyTooLarge, unread where its length is declared, and Disconnected."""
    declared = headers.get(b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLarge(limit)
        parts.append(part)
        if not event.get("more_body"):
            return b"".join(parts)


async def wait_until_left(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, status: int, body: JsonObject | None, headers: Headers = ()) -> None:
    await send_bytes(send, status, b"" if body is None else encode(body), headers)


async def send_bytes(send: Send, status: int, data: bytes, headers: Headers = ()) -> None:
    """A JSON response that somebody has written already."""
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*JSON_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": data})
