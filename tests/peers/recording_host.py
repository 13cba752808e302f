"""A host that remembers what it hears, and helpers that greet an upstream the way each era wants it."""

import asyncio

from wicket_mcp.errors import Denied, UpstreamError
from wicket_mcp.model import (
    LATEST_LEGACY_VERSION,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_VERSION,
    MODERN_VERSION,
    JsonObject,
)
from wicket_mcp.upstream.connection import Callbacks, Connection

ME: JsonObject = {"name": "test", "version": "1"}
ENVELOPE: JsonObject = {META_VERSION: MODERN_VERSION, META_CLIENT_INFO: ME, META_CAPABILITIES: {}}


class RecordingHost:
    """Implements Host."""

    fails_often = False
    is_called = False

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, JsonObject]] = asyncio.Queue()
        self.asked: list[str] = []
        self.ended: list[UpstreamError] = []
        self.ended_event = asyncio.Event()

    def notification(self, method: str, params: JsonObject) -> None:
        self.heard.put_nowait((method, params))

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(method)
        if method == "elicitation/create":
            return {"action": "accept", "content": {"name": "Ann"}}
        raise Denied(f"{method} is not for you.")

    def on_closed(self, reason: UpstreamError) -> None:
        self.ended.append(reason)
        self.ended_event.set()


class Heard:
    """Remembers the notifications of one call; `any` is set by the first."""

    def __init__(self) -> None:
        self.all: list[tuple[str, JsonObject]] = []
        self.any = asyncio.Event()

    @property
    def callbacks(self) -> Callbacks:
        return Callbacks(self)

    def __call__(self, method: str, params: JsonObject) -> None:
        self.all.append((method, params))
        self.any.set()


async def shake_hands(connection: Connection) -> JsonObject:
    """The legacy handshake."""
    params: JsonObject = {
        "protocolVersion": LATEST_LEGACY_VERSION,
        "capabilities": {"elicitation": {}},
        "clientInfo": ME,
    }
    answer = await connection.request("initialize", params)
    connection.speak(str(answer.get("protocolVersion", LATEST_LEGACY_VERSION)))
    await connection.notify("notifications/initialized")
    return answer


def call(tool: str, message: str = "", *, modern: bool = False) -> JsonObject:
    """The parameters of a tools/call that wants to hear of progress."""
    meta = ENVELOPE if modern else {}
    return {"name": tool, "arguments": {"message": message}, "_meta": {**meta, "progressToken": f"for {tool}"}}


def text_of(result: JsonObject) -> str:
    return result["content"][0]["text"]
