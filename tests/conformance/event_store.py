"""Keeps the events of every stream in memory, so that a client can fetch what it missed."""

from itertools import count

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage


class MemoryEventStore(EventStore):
    """All events, in the order they were sent."""

    def __init__(self) -> None:
        self._events: dict[EventId, tuple[StreamId, JSONRPCMessage | None]] = {}
        self._numbers = count(1)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        event_id = str(next(self._numbers))
        self._events[event_id] = (stream_id, message)
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what came on the same stream after `last_event_id`; priming events carry no message."""
        if last_event_id not in self._events:
            return None
        stream, _ = self._events[last_event_id]
        for event_id, (other, message) in list(self._events.items()):
            if other == stream and message is not None and int(event_id) > int(last_event_id):
                await send_callback(EventMessage(message, event_id))
        return stream
