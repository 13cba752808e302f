"""One configured server: started when needed, called under limits and deadlines, stopped when idle.

State changes are decided synchronously (`lifecycle.py`); awaiting happens around them. A caller that gives up never
disturbs the others: connecting is a task of its own that everybody waits for behind a shield.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Crashed, Overloaded, TimedOut, Unasked, Unavailable, UpstreamError, WicketError
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.tasks import Tasks, uninterrupted
from wicket_mcp.telemetry.log import clean
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Host
from wicket_mcp.upstream.era import Greeting, Session
from wicket_mcp.upstream.lifecycle import Event, Life, State

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # calls that may queue for a slot before more are turned away
TOLD = 2.0  # seconds that an upstream may take to note a log level

_OF_THE_CALL = ("notifications/message", "notifications/elicitation/complete")
"""What belongs to a call, whether the transport says to which or not."""

Connect = Callable[[ServerConfig, Host], Awaitable[Session]]


@dataclass(frozen=True, slots=True)
class UpstreamEvent:
    """A notification that belongs to no call; or `connected`, when a server has just been connected to."""

    server: str
    session: str
    """The client session that the upstream serves alone; empty where it is shared."""
    method: str
    params: JsonObject


OnEvent = Callable[[UpstreamEvent], None]


class Upstream:
    """See the module's docstring. Implements `Host` for its connection."""

    def __init__(
        self,
        config: ServerConfig,
        connect: Connect,
        on_event: OnEvent,
        max_call: float,
        session: str = "",
        watched: set[str] | None = None,
    ) -> None:
        """`session` is the client session that it serves alone; `watched` the resources to be told of."""
        self.config = config
        self.session = session
        self.calls = 0
        """Calls in flight."""
        self._connect = connect
        self._on_event = on_event
        self.max_call = max_call
        self._life = Life()
        self._session: Session | None = None
        self._connecting: asyncio.Task[Session] | None = None
        self._slots = asyncio.Semaphore(config.max_concurrent)
        self._waiting = 0
        self._tasks = Tasks()
        self._used_at = 0.0
        self._idle_check: asyncio.TimerHandle | None = None
        self.log_level = ""
        self.watched: set[str] = set() if watched is None else watched
        self._asking: list[Callbacks] = []
        """The calls under way whose client hears and can be asked."""

    def __repr__(self) -> str:
        return f"<Upstream {self.config.name} {self._life!r} | {self.calls} calls>"

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def problem(self) -> str:
        return self._life.problem

    @property
    def greeting(self) -> Greeting | None:
        return self._session.greeting if self._session else None

    async def start(self) -> Greeting:
        """Be connected; the greeting of the upstream."""
        return (await self._ready()).greeting

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
        timeout: float | None = None,
    ) -> JsonObject:
        """Send exactly one request and wait for its answer.

        `timeout` (default: the server's) counts from the last sign of life, which is the start, a progress
        notification or an answered question; `max_call` bounds the whole.
        """
        allowance = timeout or self.config.timeout
        await self._enter()
        self.calls += 1
        asking: Callbacks | None = None
        started = asyncio.get_running_loop().time()
        try:
            session = self._session or await self._ready()
            started = asyncio.get_running_loop().time()
            async with asyncio.timeout(min(allowance, self.max_call)) as deadline:
                if callbacks is not NO_CALLBACKS:
                    callbacks = asking = _attentive(callbacks, deadline, allowance, self.max_call)
                    self._asking.append(asking)
                answer = await session.request(
                    method, params, callbacks=callbacks, headers=headers, capabilities=capabilities
                )
        except TimeoutError:
            raise self._timed_out(method, allowance, asyncio.get_running_loop().time() - started) from None
        finally:
            if asking is not None:
                self._asking.remove(asking)
            self.calls -= 1
            self._used_at = asyncio.get_running_loop().time()
            self._slots.release()
        self._life.succeeded()
        return answer

    async def watch(self, uri: str) -> None:
        """Be told of changes to a resource, on this connection and every later one."""
        self.watched.add(uri)
        session = self._session or await self._ready()
        if session.greeting.modern:
            await session.connection.listen(sorted(self.watched))
        elif _takes_subscriptions(session):
            await self.request("resources/subscribe", {"uri": uri})

    def unwatch(self, uri: str) -> None:
        """Be told no more of a resource."""
        self.watched.discard(uri)
        if self._session:
            self._tasks.start(self._unwatch(self._session, uri), f"stop watching at {self.config.name}")

    async def _unwatch(self, session: Session, uri: str) -> None:
        with suppress(WicketError):  # then it tells us what nobody hears
            if session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
            elif _takes_subscriptions(session):
                await self.request("resources/unsubscribe", {"uri": uri})

    async def set_log_level(self, level: str) -> None:
        self.log_level = level
        if self._session:
            await self._restore_level(self._session)

    async def retire(self) -> None:
        """Close once the calls in flight have ended, or had the time that any call has."""
        try:
            async with asyncio.timeout(self.max_call):
                for _ in range(self.config.max_concurrent):
                    await self._slots.acquire()
        except TimeoutError:
            log.warning("%r: a call outlived its server's configuration and is ended", self)
        finally:
            await uninterrupted(self.close())

    async def close(self) -> None:
        self._life.on(Event.CLOSE)
        if self._idle_check:
            self._idle_check.cancel()
        await self._tasks.close()
        await self._disconnect()

    # Host: what the connection tells us

    def notification(self, method: str, params: JsonObject) -> None:
        if method in _OF_THE_CALL and (callbacks := self._only_asking()) and callbacks.notification:
            callbacks.notification(method, params)
        else:
            self._on_event(UpstreamEvent(self.config.name, self.session, method, params))

    async def request_from_upstream(self, method: str, params: JsonObject) -> JsonObject:
        """A question that the transport does not tie to a call: it can only be about the one that is under way."""
        if method == "ping":
            return {}
        if method in ("initialize", "server/discover"):
            raise Unasked(
                f"'{self.config.name}' sends back what it is sent: it is no MCP server.", hint="Check its command."
            )
        callbacks = self._only_asking()
        if callbacks is None or callbacks.request is None:
            several = f"{len(self._asking)} calls are under way and" if self._asking else "no call is under way, so"
            raise Unasked(
                f"{several} nobody knows whom '{self.config.name}' asks with {method}.",
                hint=f"Give server '{self.config.name}' isolation = \"session\" to tie its questions to a client.",
            )
        return await callbacks.request(method, params)

    def _only_asking(self) -> Callbacks | None:
        """The one call that an upstream's unrelated words belong to. All calls of an isolated one are one client's."""
        one_client = self.config.isolation == "session"
        return self._asking[-1] if self._asking and (one_client or len(self._asking) == 1) else None

    def closed(self, reason: UpstreamError) -> None:
        self._session = None
        self._life.on(Event.LOST, asyncio.get_running_loop().time(), _in_short(reason))
        log.info("%r", self)

    # Admission and connecting

    async def _enter(self) -> None:
        if self._slots.locked() and self._waiting >= MAX_WAITING:
            raise Overloaded(
                f"Server '{self.config.name}' has {self.calls} calls in flight and {self._waiting} waiting.",
                hint="Try again in a moment.",
            )
        if not self._slots.locked():  # the usual case needs no deadline
            await self._slots.acquire()
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(self.config.timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise Overloaded(
                f"Server '{self.config.name}' had no free slot for {self.config.timeout:g} s.",
                hint="Try again later, or raise its 'max_concurrent'.",
            ) from None
        finally:
            self._waiting -= 1

    async def _ready(self) -> Session:
        if self._session:
            return self._session
        if self._life.state is State.CLOSED:
            raise Unavailable(self.config.name, f"Server '{self.config.name}' is stopped: the gateway is closing.")
        if self._connecting is None:
            pause = self._life.retry_at - asyncio.get_running_loop().time()
            if self._life.state is State.BROKEN and pause > 0:
                raise Unavailable(
                    self.config.name,
                    f"Server '{self.config.name}' failed {self._life.failures} times in a row: {self._life.problem}",
                    hint=f"It is tried again in {pause:.0f} s; `wicket status` shows more.",
                )
            self._connecting = self._tasks.start(self._open(max(0.0, pause)), f"connect {self.config.name}")
            self._connecting.add_done_callback(self._connected)
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if connecting.cancelled() and not (task and task.cancelling()):  # it leaves, not who waits for it
                raise Unavailable(
                    self.config.name,
                    f"Server '{self.config.name}' was stopped or reconfigured while it started.",
                    hint="Try again.",
                ) from None
            raise

    async def _open(self, pause: float) -> Session:
        if self._life.state is State.WAITING:
            await asyncio.sleep(pause)
        self._life.on(Event.START)
        try:
            async with asyncio.timeout(self.config.patience):
                session = await self._connect(self.config, _HostOf(self))
        except TimeoutError:
            raise self._failed(
                Unavailable(
                    self.config.name,
                    f"Server '{self.config.name}' did not answer within {self.config.patience:g} s.",
                    hint="Raise its 'connect_timeout' if it starts slowly; run its command by hand to see why.",
                )
            ) from None
        except WicketError as problem:
            raise self._failed(problem) from None
        await self._restore_level(session)
        self._session = session
        self._life.on(Event.CONNECTED)
        self._used_at = asyncio.get_running_loop().time()
        self._watch_idleness(self.config.idle_stop)
        if self.watched:
            self._tasks.start(self._restore(session), f"restore {self.config.name}")
        log.info("%r", self)
        self._on_event(UpstreamEvent(self.config.name, self.session, "connected", {}))
        return session

    async def _restore(self, session: Session) -> None:
        """Tell a connection what its predecessors were told. An upstream that refuses is left as it is."""
        try:
            if self.watched and session.greeting.modern:
                await session.connection.listen(sorted(self.watched))
            if not session.greeting.modern:
                for uri in sorted(self.watched):
                    await session.request("resources/subscribe", {"uri": uri})
        except WicketError as problem:
            log.info("server '%s' did not take up where it was: %s", self.config.name, problem)

    async def _restore_level(self, session: Session) -> None:
        """Tell a legacy upstream what to log, before the calls whose log it is; but do not wait for long."""
        if not self.log_level or session.greeting.modern or "logging" not in session.greeting.capabilities:
            return
        try:
            async with asyncio.timeout(TOLD):
                await session.request("logging/setLevel", {"level": self.log_level})
        except (WicketError, TimeoutError) as problem:
            log.info("server '%s' did not take the log level: %r", self.config.name, problem)

    def _failed(self, problem: WicketError) -> WicketError:
        if isinstance(problem, Crashed):  # it never got as far as a call: trying again is safe
            hint = "Run its command by hand to see why."
            problem = Unavailable(self.config.name, problem.message, hint=hint, stderr=problem.stderr)
        self._life.on(Event.FAILED, asyncio.get_running_loop().time(), _in_short(problem))
        log.info("%r", self)
        return problem

    def _connected(self, task: "asyncio.Task[Session]") -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # everybody who waited has it; nobody waiting is no defect

    def _timed_out(self, method: str, allowance: float, taken: float) -> TimedOut:
        setting = f"the server's 'timeout' ({allowance:g} s)"
        if taken >= self.max_call:
            allowance, setting = self.max_call, f"'limits.max_call' ({self.max_call:g} s)"
        return TimedOut(
            self.config.name,
            f"Server '{self.config.name}' did not answer {method} within {allowance:g} s; it was told to cancel.",
            hint=f"It may have had effects. Raise {setting} if its tools take longer.",
        )

    # Idleness

    def _watch_idleness(self, after: float) -> None:
        if self.config.idle_stop:
            self._idle_check = asyncio.get_running_loop().call_later(after, self._rest_if_idle)

    def _rest_if_idle(self) -> None:
        if self._session is None:
            return
        left = self._used_at + self.config.idle_stop - asyncio.get_running_loop().time()
        if self.calls or left > 0:
            self._watch_idleness(max(left, 1.0))
            return
        self._life.on(Event.REST)
        self._tasks.start(self._disconnect(), f"stop {self.config.name}")

    async def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.connection.close()


def _takes_subscriptions(session: Session) -> bool:
    return bool(as_object(session.greeting.capabilities.get("resources")).get("subscribe"))


def _attentive(callbacks: Callbacks, deadline: asyncio.Timeout, allowance: float, longest: float) -> Callbacks:
    """`callbacks` that move the deadline: a sign of life restarts it, and a question waits as long as a call may."""
    loop = asyncio.get_running_loop()
    end = loop.time() + longest

    def heard(method: str, params: JsonObject) -> None:
        deadline.reschedule(min(loop.time() + allowance, end))
        if callbacks.notification:
            callbacks.notification(method, params)

    async def asked(method: str, params: JsonObject) -> JsonObject:
        if callbacks.request is None:
            raise Unasked(f"{method} is not available here.")
        deadline.reschedule(end)
        try:
            return await callbacks.request(method, params)
        finally:
            deadline.reschedule(min(loop.time() + allowance, end))

    return Callbacks(heard, asked)


class _HostOf:
    """What a connection sees of its upstream; forgotten connections have no say any more."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def notification(self, method: str, params: JsonObject) -> None:
        self._upstream.notification(method, params)

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        return await self._upstream.request_from_upstream(method, params)

    def closed(self, reason: UpstreamError) -> None:
        self._upstream.closed(reason)


def _in_short(problem: UpstreamError | WicketError) -> str:
    """What happened, and the server's last words: for a list of servers, where there is room for a line."""
    words = problem.message.splitlines()[0] if problem.message else type(problem).__name__
    last = problem.stderr[-1] if isinstance(problem, UpstreamError) and problem.stderr else ""
    return clean(f"{words} It said: {last}" if last else words, 300)
