"""A client in its chair before Wicket: the SDK's own, with a person, a model and a folder behind it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client._transport import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.eras.table import Dialect, Era

MODES = {"legacy": "legacy", "modern": "2026-07-28"}
SERVER = "up"
"""What the upstream is called in Wicket's configuration."""

Door: TypeAlias = str | StdioServerParameters
Elicited: TypeAlias = types.ElicitRequestFormParams | types.ElicitRequestURLParams


def accept(params: Elicited) -> types.ElicitResult:
    """What the person answers unless a test says otherwise."""
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    fields = params.requested_schema.get("properties", {})
    answers = {"name": "Ada", "colour": "blue"}
    content: dict[str, Any] = {key: answers[key] for key in fields if key in answers}
    return types.ElicitResult(action="accept", content=content)


@dataclass
class Chair:
    """One client and what it heard. `answer` is how its person answers."""

    asked: list[Elicited] = field(default_factory=list[Elicited])
    prompts: list[types.CreateMessageRequestParams] = field(default_factory=list[types.CreateMessageRequestParams])
    logs: list[types.LoggingMessageNotificationParams] = field(
        default_factory=list[types.LoggingMessageNotificationParams]
    )
    heard: "asyncio.Queue[Any]" = field(default_factory=asyncio.Queue[Any])
    """The notifications that belong to no request."""
    answer: Callable[[Elicited], types.ElicitResult] = accept
    ponder: asyncio.Event | None = None
    """When set, the person thinks until it happens."""
    pondering: asyncio.Event = field(default_factory=asyncio.Event)
    gave_up: asyncio.Event = field(default_factory=asyncio.Event)
    client: Client = field(init=False)

    def forget(self) -> None:
        """Be as new, for the next test."""
        for kept in (self.asked, self.prompts, self.logs):
            kept.clear()
        while not self.heard.empty():
            self.heard.get_nowait()
        self.answer, self.ponder = accept, None
        self.pondering.clear()
        self.gave_up.clear()

    async def call(self, via: Dialect, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool of the upstream in the words of a dialect."""
        if via == "native":
            given = {"name": f"{SERVER}.{name}", "arguments": arguments or {}}
            return await self.client.call_tool("call_tool", given, **options)
        return await self.client.call_tool(name, arguments or {}, **options)

    async def set_level(self, level: types.LoggingLevel) -> None:
        """What a legacy client says once; the SDK's own method only warns that the era is over."""
        request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
        await self.client.session.send_request(request, types.EmptyResult)

    async def subscribe(self, uri: str) -> None:
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await self.client.session.send_request(request, types.EmptyResult)

    async def unsubscribe(self, uri: str) -> None:
        request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        await self.client.session.send_request(request, types.EmptyResult)

    async def hears(self, kind: type[Any]) -> Any:
        """The next notification of this kind; others before it are passed over."""
        while not isinstance(message := await self.heard.get(), kind):
            pass
        return message

    async def _elicit(self, context: Any, params: Elicited) -> types.ElicitResult:
        self.asked.append(params)
        if self.ponder is not None:
            self.pondering.set()
            try:
                await self.ponder.wait()
            except asyncio.CancelledError:
                self.gave_up.set()
                raise
        return self.answer(params)

    async def _sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.prompts.append(params)
        content = types.TextContent(type="text", text="the model says hello")
        return types.CreateMessageResult(role="assistant", content=content, model="model")

    async def _roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])  # pyright: ignore[reportArgumentType]

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params)

    async def _hear(self, message: Any) -> None:
        self.heard.put_nowait(message)

    def open(self, door: Door | Transport, era: Era, *, capable: bool = True) -> AbstractAsyncContextManager[Client]:
        asked: dict[str, Any] = {
            "elicitation_callback": self._elicit,
            "sampling_callback": self._sample,
            "list_roots_callback": self._roots,
        }
        return Client(
            door,
            mode=MODES[era],
            logging_callback=self._log,
            message_handler=self._hear,
            log_level="info",
            cache=None,
            **(asked if capable else {}),
        )


@asynccontextmanager
async def seated(door: Door, era: Era, *, capable: bool = True, token: str = "") -> AsyncGenerator[Chair]:
    """A client of `era` at `door`; one that is not `capable` can be asked nothing. `token` says who it is."""
    chair = Chair()
    async with AsyncExitStack() as stack:
        way: Door | Transport = door
        if token:
            assert isinstance(door, str)
            headed = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
            way = streamable_http_client(door, http_client=await stack.enter_async_context(headed))
        chair.client = await stack.enter_async_context(chair.open(way, era, capable=capable))
        yield chair
