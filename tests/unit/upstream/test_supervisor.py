"""One upstream over scripted connections, turn by turn."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.upstream.scripted import ScriptedServer, turns
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Crashed, Moved, TimedOut, Unavailable
from wicket_mcp.model import JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Callbacks
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.supervisor import Upstream

CALL: JsonObject = {"name": "echo"}


@asynccontextmanager
async def upstream_of(
    server: ScriptedServer, on_event: Callable[[UpstreamEvent], None] = lambda _: None, **options: Any
) -> AsyncGenerator[Upstream]:
    [config] = Config.from_dict({"servers": {"x": {"command": "scripted", **options}}}).servers
    upstream = Upstream(config, server.open, on_event, max_call=30)
    try:
        yield upstream
    finally:
        for connection in server.connections:
            connection.may_close.set()
        await upstream.close()


async def test_a_connection_that_dies_before_it_is_adopted_is_not_used() -> None:
    """B2: its caller may try again, and the next call gets a connection that lives."""
    server = ScriptedServer()
    server.dies_after_greeting = 1
    async with upstream_of(server) as upstream:
        with pytest.raises(Unavailable, match="The connection broke"):
            await upstream.request("tools/call", CALL)
        assert upstream.state is State.WAITING
        assert upstream.greeting is None
        assert await upstream.request("tools/call", CALL) == {}
        assert [connection.log for connection in server.connections] == [[], [("tools/call", "echo")]]


async def test_a_call_that_is_rejected_leaves_nothing_to_the_garbage_collector() -> None:
    """A server that fails is asked again and again; whatever only the collector can free holds everybody up."""
    server = ScriptedServer()
    server.dies_after_greeting = 1
    async with upstream_of(server) as upstream:
        gc.disable()
        try:
            rejected: weakref.ref[Unavailable] | None = None
            try:
                await upstream.request("tools/call", CALL)
            except Unavailable as problem:
                rejected = weakref.ref(problem)
            await turns()
            assert rejected is not None
            assert rejected() is None
        finally:
            gc.enable()


async def test_a_call_in_the_turn_in_which_an_idle_one_is_stopped_goes_to_the_next() -> None:
    """B4: nothing is sent to a server that is about to be killed."""
    server = ScriptedServer(slow_to_close=True)
    tasks = Tasks()
    async with upstream_of(server, idle_stop=0.01) as upstream:
        await upstream.start()
        while upstream.state is State.READY:
            await asyncio.sleep(0)
        calling = tasks.start(upstream.request("tools/call", CALL), "call in that turn")
        also = tasks.start(upstream.request("tools/call", CALL), "another")
        await server.connections[0].closing.wait()
        await turns()
        assert upstream.state is State.RESTARTING
        assert len(server.connections) == 1, "the next one is not started beside one that may hold a lock"
        server.connections[0].may_close.set()
        assert await calling == await also == {}
        assert [len(connection.log) for connection in server.connections] == [0, 2]


async def test_a_call_made_at_once_when_idleness_is_decided_is_not_lost() -> None:
    """B4, without a task in between: the very next thing that happens is the call."""
    server = ScriptedServer()
    async with upstream_of(server, idle_stop=0.01) as upstream:
        await upstream.start()
        while upstream.state is State.READY:
            await asyncio.sleep(0)
        assert await upstream.request("tools/call", CALL) == {}
        assert [len(connection.log) for connection in server.connections] == [0, 1]


async def test_what_a_replaced_connection_says_is_not_listened_to() -> None:
    events: list[UpstreamEvent] = []
    server = ScriptedServer()
    async with upstream_of(server, events.append) as upstream:
        await upstream.start()
        server.connections[0].die()
        await upstream.start()
        old, new = server.connections
        events.clear()
        old.host.on_closed(Crashed("x", "Once more."))
        old.host.notification("notifications/tools/list_changed", {})
        new.host.notification("notifications/prompts/list_changed", {})
        assert upstream.state is State.READY
        assert [event.method for event in events] == ["notifications/prompts/list_changed"]


async def test_a_call_that_waited_for_a_connection_that_is_lost_in_that_turn_gets_the_next() -> None:
    server = ScriptedServer()
    tasks = Tasks()

    def lose_first(event: UpstreamEvent) -> None:
        if event.method == "connected" and len(server.connections) == 1:
            server.connections[0].die()  # admitted, but not yet awake

    async with upstream_of(server, lose_first) as upstream:
        calling = tasks.start(upstream.request("tools/call", CALL), "call")
        assert await calling == {}
        assert [len(connection.log) for connection in server.connections] == [0, 1]


async def test_a_question_that_outlives_its_call_is_still_answered() -> None:
    """B17: the upstream gets the person's reply, though there is no deadline left to move."""
    server = ScriptedServer(silent=True)
    tasks = Tasks()
    person: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()

    async def ask(method: str, params: JsonObject) -> JsonObject:
        return await person

    async with upstream_of(server) as upstream:
        calling = tasks.start(upstream.request("tools/call", CALL, callbacks=Callbacks(None, ask)), "call")
        await turns()
        asked = server.connections[0].received.get_nowait()
        assert asked.callbacks.request is not None
        assert asked.callbacks.notification is not None
        question = asyncio.ensure_future(asked.callbacks.request("elicitation/create", {}))
        await turns()
        asked.reply.set_result({"content": []})
        assert await calling == {"content": []}
        person.set_result({"action": "accept"})
        assert await question == {"action": "accept"}
        asked.callbacks.notification("notifications/progress", {"progress": 1})


async def test_progress_while_the_deadline_expires_does_not_raise() -> None:
    """B9, B17: what a transport hands on late must not hurt the rest of what it reads."""
    server = ScriptedServer(silent=True)
    notified: list[str] = []

    def notify(method: str, params: JsonObject) -> None:
        notified.append(method)

    callbacks = Callbacks(notify, None)
    async with upstream_of(server) as upstream:
        await upstream.start()  # the deadline is for the call, and not to be spent on connecting
        calling = asyncio.ensure_future(upstream.request("tools/call", CALL, callbacks=callbacks, timeout=0.25))
        asked = await server.connections[0].received.get()
        assert asked.callbacks.notification is not None
        # The turn in which the call is cancelled by its deadline is the one in which its reply is cancelled.
        asked.reply.add_done_callback(lambda _: late())

        def late() -> None:
            assert asked.callbacks.notification is not None
            asked.callbacks.notification("notifications/progress", {"progress": 1})

        with pytest.raises(TimedOut):
            await calling
        assert notified == ["notifications/progress"]


async def test_a_defect_in_connecting_fails_who_waits_instead_of_leaving_them_there() -> None:
    async def broken(config: object, host: object, principal: object) -> Any:
        raise LookupError("no such thing")

    [config] = Config.from_dict({"servers": {"x": {"command": "scripted"}}}).servers
    upstream = Upstream(config, broken, lambda _: None, max_call=30)
    with pytest.raises(Exception, match="LookupError: no such thing"):
        await upstream.start()
    await upstream.close()


async def test_who_waits_when_it_is_closed_hears_so() -> None:
    server = ScriptedServer(slow_to_close=True)
    async with upstream_of(server, idle_stop=0.01) as upstream:
        await upstream.start()
        while upstream.state is State.READY:
            await asyncio.sleep(0)
        calling = asyncio.ensure_future(upstream.request("tools/call", CALL))
        await turns()
        closing = asyncio.ensure_future(upstream.close())
        with pytest.raises(Unavailable, match="was stopped or reconfigured while it started"):
            await calling
        assert not closing.done(), "what was being stopped is waited for"
        server.connections[0].may_close.set()
        await closing
        with pytest.raises(Unavailable, match="is stopped"):
            await upstream.start()


async def test_a_reply_for_a_call_that_is_gone_does_not_make_the_call_again() -> None:
    """A legacy server knows no state: what carries one was begun by a gateway process that is gone."""
    server = ScriptedServer()
    async with upstream_of(server) as upstream:
        with pytest.raises(Crashed, match="check before you make it again"):
            await upstream.request("tools/call", {**CALL, "inputResponses": {}, "requestState": "another~state"})
        assert await upstream.request("tools/call", {**CALL, "inputResponses": {}}) == {}
        assert [connection.log for connection in server.connections] == [[("tools/call", "echo")]]


async def test_a_call_follows_a_server_that_moves_more_than_once() -> None:
    """While all gateways are replaced, the one that runs a server may change again before a call has reached it."""
    server = ScriptedServer(silent=True)
    tasks = Tasks()
    async with upstream_of(server) as upstream:
        calling = tasks.start(upstream.request("tools/call", CALL), "call", awaited=True)
        for number in range(4):
            await turns()
            asked = await server.connections[number].received.get()
            if number < 3:
                server.connections[number].may_close.set()
                asked.reply.set_exception(Moved("x", "Another gateway runs it."))
            else:
                asked.reply.set_result({"ok": True})
        assert await calling == {"ok": True}
