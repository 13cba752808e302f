"""One configured server: connected to when needed, called under limits and deadlines, stopped when idle.

`lifecycle.py` decides, this module acts: every event goes to `Life.on`, and the commands that it returns become tasks
of this upstream's own. A caller that gives up never disturbs the others: all of them wait for the same future behind a
shield. `pool.py` makes upstreams and finds the one for a request; transports are behind `Connection`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Internal, Moved, NotSent, Overloaded, Refused, Unavailable, WicketError
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.tasks import Tasks, run_uninterrupted
from wicket_mcp.telemetry.redact import mask_strings
from wicket_mcp.upstream.attribution import Attribution
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Connection, Host
from wicket_mcp.upstream.deadline import Deadline, Deadlines, Pause, Slots, extend_deadline, no_slot, timed_out
from wicket_mcp.upstream.era import Greeting, Session
from wicket_mcp.upstream.events import OnEvent
from wicket_mcp.upstream.host import GenerationHost
from wicket_mcp.upstream.lifecycle import (
    Abandon,
    Admit,
    Answered,
    Close,
    Closed,
    Connect,
    Connected,
    Event,
    Failed,
    Life,
    Lost,
    Needed,
    Reject,
    Rested,
    State,
    Stopped,
)
from wicket_mcp.upstream.owner import OwnerLink
from wicket_mcp.upstream.state_log import StateLog
from wicket_mcp.upstream.unattributed import Unattributed
from wicket_mcp.upstream.wishes import Wishes

log = logging.getLogger(__name__)

MAX_WAITING = 2000  # calls that may queue for a slot before more are rejected: as many as one principal may make
HUNG_AFTER = 3  # unanswered calls in a row, after which a server is checked for any answer at all
PING_TIMEOUT = 5.0
OWNER_LEAVES_WITHIN = 45.0  # seconds that an owner has for its calls in flight, before another gateway takes over


Opener = Callable[[ServerConfig, Host, Principal], Awaitable[Session]]
"""Connects to a server on behalf of a principal, and negotiates."""


class Upstream:
    """See the module's docstring."""

    def __init__(
        self,
        config: ServerConfig,
        opener: Opener,
        on_event: OnEvent,
        *,
        max_call: float,
        session: str = "",
        principal: Principal = LOCAL,
        watched: Iterable[str] = (),
        log_level: str = "",
        on_rest: Callable[[], None] | None = None,
        roots: JsonObject | None = None,
        withhold_roots: bool = False,
    ) -> None:
        """`session` is the only client session that it serves, `principal` the one it was created for. `watched` are
        the resources to subscribe to on every connection. `on_rest` is called when it was stopped for idleness. `roots`
        are the roots of all its clients, if they are known to be the same; with `withhold_roots` no roots are offered.
        """
        self._config = config
        self._session = session
        self._principal = principal
        self._opener = opener
        self._on_rest = on_rest
        self._max_call = max_call
        self._wishes = Wishes(config.name, set(watched), log_level)
        self._life: Life[Session] = Life(config.name)
        self._state_log = StateLog(config.name)
        self._arrival: asyncio.Future[None] | None = None
        """Settled when all callers that wait for a session are admitted or rejected."""
        self._expecting = 0
        """How many callers wait for a session."""
        self._connecting: asyncio.Task[None] | None = None
        self._tasks = Tasks()
        self._closing = Tasks()
        """Sessions that are being closed: waited for, never cancelled."""
        self._loop = asyncio.get_running_loop()
        self._slots = Slots(config.max_concurrent, self._loop)
        self._deadlines = Deadlines(self._loop)
        self._pause = Pause(self._loop)
        self._queued = 0
        self._calls = 0
        self._used_at = 0.0
        self._idle_check: asyncio.TimerHandle | None = None
        self._unanswered = 0
        """Calls in a row that got no answer in time."""
        self._starts = 0
        """Attempts to connect, except those that led to another gateway which runs the server."""
        self._past_strays = 0
        """Those of earlier connections."""
        self._attribution = Attribution(
            config.name, one_client=config.isolation == "session", roots=roots, withhold_roots=withhold_roots
        )
        self._unattributed = Unattributed(config.name, session, principal, self._attribution, on_event)

    def __repr__(self) -> str:
        return f"<Upstream {self._config.name} {self._life!r} | {self._calls} calls>"

    @property
    def config(self) -> ServerConfig:
        return self._config

    @property
    def session(self) -> str:
        return self._session

    @property
    def principal(self) -> Principal:
        return self._principal

    @property
    def unused(self) -> bool:
        """Whether only we ourselves have used the current connection, and no call waits for it."""
        return not self._attribution.served and not self._calls and not self._queued and not self._expecting

    @property
    def watched(self) -> frozenset[str]:
        """The watched resources."""
        return frozenset(self._wishes.watched)

    @property
    def calls(self) -> int:
        """Calls in flight."""
        return self._calls

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot or a connection."""
        return self._queued + self._expecting

    @property
    def restarts(self) -> int:
        """How often we started the server or connected to it, or tried to, after the first time."""
        return max(0, self._starts - 1)

    @property
    def connection(self) -> Connection | None:
        """The current connection."""
        return self._life.session.connection if self._life.session else None

    @property
    def strays(self) -> int:
        """Those of all its connections."""
        return self._past_strays + (self._life.session.connection.strays if self._life.session else 0)

    @property
    def stderr(self) -> Sequence[str]:
        """The server's last stderr lines; those of the last failed connection as long as there are no others."""
        session = self._life.session
        return (session.connection.stderr_tail() if session else ()) or self._life.stderr

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def problem(self) -> str:
        session = self._life.session
        if session is not None and session.connection.slowed:
            return f"Server '{self.config.name}' sends more than it is asked for; it is read more slowly."
        return self._life.problem

    @property
    def hint(self) -> str:
        """What to do about the problem; empty if nobody knows."""
        return self._life.hint

    @property
    def greeting(self) -> Greeting | None:
        return self._life.session.greeting if self._life.session else None

    @property
    def at_rest(self) -> bool:
        """Whether it can be removed without loss: no connection, no waiting call, no pause that must be kept."""
        if self._calls or self._queued or self._expecting:
            return False
        if self.state in (State.WAITING, State.BROKEN):
            return asyncio.get_running_loop().time() >= self._life.retry_at
        return self.state is State.IDLE

    def reconfigure(self, config: ServerConfig, max_call: float) -> None:
        """Continue with another configuration for the same connection."""
        self._config, self._max_call = config, max_call

    async def start(self) -> Greeting:
        """Connect if needed; returns the upstream's greeting."""
        return (await self._ready(self._loop.time() + self._config.timeout)).greeting

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
        timeout: float | None = None,
        principal: str = "",
    ) -> JsonObject:
        """Send exactly one request, on behalf of `principal`, and wait for its answer.

        `timeout` (default: the server's) counts from the last sign of life, which is the start, a progress notification
        or an answered question; `max_call` limits the total time.
        """
        allowance = timeout or self._config.timeout
        if not self._slots.take():  # usually a slot is free
            await self._enter()
        self._calls += 1
        extending: Callbacks | None = None
        started = self._loop.time()
        try:
            if self._life.session is None:
                await self._ready(started + min(allowance, self._max_call))
                started = self._loop.time()
            if principal not in self._attribution.served:
                self._attribution.serve(principal)
            with self._deadlines.set(started + min(allowance, self._max_call)) as deadline:
                if callbacks.notification is not None or callbacks.request is not None:
                    callbacks = extending = extend_deadline(callbacks, deadline, allowance, started + self._max_call)
                    self._attribution.begin(extending, principal)
                answer = await self._send(deadline, method, params, callbacks, headers, capabilities)
        except Refused as refusal:
            refusal.replace(mask_strings(refusal.error))
            raise
        except TimeoutError:
            self._count_unanswered()
            raise timed_out(self._config.name, method, allowance, self._max_call, self._loop.time() - started) from None
        finally:
            if extending is not None:
                self._attribution.end(extending)
            self._calls -= 1
            self._used_at = self._loop.time()
            self._slots.release()
        return answer

    async def _send(
        self,
        deadline: Deadline,
        method: str,
        params: JsonObject,
        callbacks: Callbacks,
        headers: Mapping[str, str] | None,
        capabilities: JsonObject | None,
    ) -> JsonObject:
        """Send, and again only if nothing ran: the connection was gone, or the server asked us to retry in time."""
        reconnected, waits = False, 0
        while True:
            session = self._life.session or await self._ready(deadline.when)
            generation = self._life.generation
            if self._pause.until:
                await self._pause.pass_by(deadline.when)
            try:
                answer = await session.request(method, params, callbacks, headers, capabilities)
            except NotSent as problem:
                self._report(Lost(generation))
                if reconnected and not isinstance(problem, Moved):  # who runs it may change again meanwhile
                    raise
                reconnected = True
            except Unavailable as problem:
                if not await self._pause.keep(problem, deadline.when, waits):
                    raise
                waits += 1
            else:
                self._unanswered = 0
                if self._life.failures:
                    self._report(Answered(generation, self._loop.time()))
                return answer

    async def notify(
        self, method: str, params: JsonObject, capabilities: JsonObject | None, principal: Principal
    ) -> None:
        """Send a notification on behalf of `principal`."""
        session = self._life.session or await self._ready()
        self._attribution.serve(principal.id)
        await session.notify(method, params, capabilities, principal)
        self._used_at = asyncio.get_running_loop().time()

    async def watch(self, uri: str) -> None:
        """Subscribe to changes of a resource, on this connection and every later one."""
        await self._wishes.watch(await self._ready(), uri, self.request)

    def unwatch(self, uri: str) -> None:
        """End the subscription to a resource."""
        if self._wishes.forget(uri) and (session := self._life.session):
            ending = self._wishes.unwatch(session, uri, self.request)
            self._tasks.start(ending, f"stop watching at {self._config.name}")

    async def set_log_level(self, level: str) -> None:
        await self._wishes.want_logs(level, self._life.session)

    async def retire(self) -> None:
        """Close once the calls in flight have ended, or after the longest time that a call may take."""
        try:
            async with asyncio.timeout(self._max_call):
                for _ in range(self._config.max_concurrent):
                    await self._slots.acquire()
        except TimeoutError:
            log.warning("%r: a call outlived its server's configuration and is ended", self)
        finally:
            await run_uninterrupted(self.close())

    async def close(self) -> None:
        """End the connection and every call in flight; final."""
        self._report(Closed())
        if self._idle_check:
            self._idle_check.cancel()
        await self._tasks.close()
        await self._closing.wait()
        self._deadlines.close()
        self._slots.close()

    # Admission

    async def _enter(self) -> None:
        """Wait for a slot. Raises Overloaded if too many calls wait, or if no slot was free in time."""
        if self._queued >= MAX_WAITING:
            raise Overloaded(
                f"Server '{self._config.name}' has {self._calls} calls in flight and {self._queued} waiting.",
                hint="Try again in a moment.",
            )
        self._queued += 1
        try:
            await self._slots.acquire(self._config.timeout)
        except TimeoutError:
            raise no_slot(self._config.name, self._config.timeout) from None
        finally:
            self._queued -= 1

    async def _ready(self, end: float = 0.0) -> Session:
        """The session, once it is ready. A server that asks us to come back before `end` is asked again then.

        Raises the error with which the life cycle rejects.
        """
        self._expecting += 1
        waits, moved_by = 0, self._loop.time() + OWNER_LEAVES_WITHIN
        try:
            while (session := self._life.session) is None:  # it may be gone again by the time we wake up
                arrival = self._arrival = self._arrival or self._loop.create_future()
                self._report(Needed(self._loop.time()))
                try:
                    await asyncio.shield(arrival)
                except Moved:
                    if self._loop.time() > moved_by:
                        raise
                except Unavailable as problem:
                    if not await self._pause.keep(problem, end, waits):
                        raise
                    waits += 1
                finally:
                    del arrival  # its error refers to this frame: a cycle that the collector had to find
            return session
        finally:
            self._expecting -= 1

    def _settle(self, problem: WicketError | None = None) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is None:
            return
        if problem is None:
            arrival.set_result(None)
        else:
            arrival.set_exception(problem)
            arrival.exception()  # an error with no waiter is not a bug

    # The life cycle: events in, commands out

    def _report(self, event: "Event[Session]") -> None:
        """Report an event to the life cycle, and start the commands that it returns."""
        before = self._life.session
        for command in self._life.on(event):
            match command:
                case Connect(generation, after):
                    work = self._open(generation, after)
                    self._connecting = self._tasks.start(work, f"connect {self._config.name}", awaited=True)
                    self._connecting.add_done_callback(lambda task, started=generation: self._on_opened(started, task))
                case Abandon():
                    if self._connecting and self._connecting is not asyncio.current_task():
                        self._connecting.cancel()
                case Admit():
                    self._settle()
                case Reject(problem):
                    self._settle(problem)
                case Close(generation, session):
                    self._closing.start(self._stop(generation, session), f"stop {self._config.name}")
        if before is not None and self._life.session is not before:
            self._past_strays += before.connection.strays
        if before is not None and self._life.session is None:
            self._unattributed.report("disconnected", {})
        if not isinstance(event, Needed | Answered):
            self._state_log.note(self._life)

    async def _open(self, generation: int, after: float) -> None:
        """Connect, and report the outcome."""
        loop, config = asyncio.get_running_loop(), self._config
        callbacks = Callbacks(self._take_notification, self._attribution.answer)
        host = GenerationHost(generation, self._life, callbacks, self._report, lambda: self._calls)
        if after:
            await asyncio.sleep(after)
        relayed = False
        try:
            async with asyncio.timeout(config.patience):
                session = await self._opener(config, host, self._principal)
            relayed = isinstance(session.connection, OwnerLink)
        except TimeoutError:
            text = f"Server '{config.name}' did not answer within {config.patience:g} s."
            hint = "Raise its 'connect_timeout' if it starts slowly; run its command by hand to see why."
            self._report(Failed(generation, Unavailable(config.name, text, hint=hint), loop.time()))
            return
        except WicketError as problem:
            self._report(Failed(generation, problem, loop.time()))
            return
        finally:
            self._starts += not relayed
        try:
            await self._wishes.send_log_level(session)
        except BaseException:  # no one else knows this session yet
            await run_uninterrupted(session.connection.close())
            raise
        self._report(Connected(generation, session, loop.time()))
        if self._life.session is session:
            self._begin(session)

    def _on_opened(self, generation: int, task: "asyncio.Task[None]") -> None:
        """Waiting callers must be told, even if a bug ended the attempt."""
        if not task.cancelled() and (defect := task.exception()):
            text = f"Connecting to server '{self._config.name}' failed with {type(defect).__name__}: {defect}"
            self._report(Failed(generation, Internal(text), asyncio.get_running_loop().time()))

    def _begin(self, session: Session) -> None:
        self._used_at = asyncio.get_running_loop().time()
        self._unanswered = 0
        self._attribution.renew()
        self._schedule_idle_check(self._config.idle_stop)
        if self._wishes.watched:
            self._tasks.start(self._wishes.renew(session), f"watch resources of {self._config.name}")
        self._unattributed.report("connected", {})

    async def _stop(self, generation: int, session: Session) -> None:
        await session.connection.close()
        self._report(Stopped(generation))
        if self.state is State.IDLE and self._on_rest:
            self._on_rest()

    def _schedule_idle_check(self, after: float) -> None:
        if self._config.idle_stop:
            self._idle_check = self._loop.call_later(after, self._stop_if_idle, self._life.generation)

    def _stop_if_idle(self, generation: int) -> None:
        left = self._used_at + self._config.idle_stop - asyncio.get_running_loop().time()
        if generation != self._life.generation or self._life.session is None:
            return
        if self._calls or left > 0:
            self._schedule_idle_check(max(left, 1.0))
        else:
            self._report(Rested(generation))

    def _take_notification(self, method: str, params: JsonObject) -> None:
        behind = self.greeting is not None and bool(self.greeting.behind)
        self._unattributed.take(method, params, from_gateway=behind)

    # A server that hangs

    def _count_unanswered(self) -> None:
        self._unanswered += 1
        if self._unanswered == HUNG_AFTER and (session := self._life.session):
            self._tasks.start(self._restart_if_hung(session, self._life.generation), f"ping {self._config.name}")

    async def _restart_if_hung(self, session: Session, generation: int) -> None:
        """Check whether the server still answers at all; if not, stop it, so that the next call starts it again."""
        name = self._config.name
        try:
            async with asyncio.timeout(min(PING_TIMEOUT, self._config.timeout)):
                await session.request("server/discover" if session.greeting.modern else "ping", {})
        except TimeoutError:
            text = f"Server '{name}' hung: it answered neither {HUNG_AFTER} calls nor a ping, and was stopped."
            problem = Unavailable(name, text, hint="The next call starts it again.")
            self._report(Failed(generation, problem, asyncio.get_running_loop().time()))
            self._closing.start(session.connection.close(), f"stop {name}")
        except WicketError:
            pass  # an error is an answer; a closed connection is reported separately
        finally:
            self._unanswered = 0
