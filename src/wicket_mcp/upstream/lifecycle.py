"""The life of one upstream as a pure state machine: events in, commands out, no I/O and no clock of its own.

    idle ──Needed──> starting ──Connected──> ready ──Rested──> stopping ──Stopped──> idle
      ^                                        │
      └─────────────────Lost───────────────────┘
      ^                  │                     │                  │ Needed
      │                Failed               Failed                v
      │                  └────────┬────────────┘              restarting ──Stopped──> starting
      │                           v
      │              waiting (after failure 1 and 2: the next Needed connects, after a pause)
      │              broken  (after 3 in a row: Needed is rejected until the pause is over)
      │              waiting (if the server asks for a pause: Needed is rejected until it is over; not a failure)
      │              idle    (if a sign-in or an owner is missing: the next Needed connects at once)
    closed <── Closed, from every state, final

The session is part of the state: it exists only in `ready`. Every connection has a generation number, and an event with
the number of another connection changes nothing. `supervisor.py` reports events and carries out commands.
"""

import random
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

import msgspec

from wicket_mcp.errors import Crashed, Moved, NeedsSignIn, NoOwner, Unavailable, UpstreamError, WicketError
from wicket_mcp.telemetry.log import clean
from wicket_mcp.telemetry.redact import mask_assignments
from wicket_mcp.upstream.deadline import LONGEST_WAIT, SHORTEST_WAIT

BREAKER_FAILURES = 3
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY_AFTER = 10.0  # seconds for which a connection must last before an answer forgives earlier failures

S = TypeVar("S")


class State(StrEnum):
    """Ordered by importance when the states of several upstreams are summarised."""

    IDLE = "idle"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    BROKEN = "broken"
    CLOSED = "closed"


# Events


class Needed(msgspec.Struct, frozen=True):
    """A caller waits for a session. `Admit` or `Reject` follows, now or later."""

    now: float


class Connected(msgspec.Struct, Generic[S], frozen=True):
    """The connection is open and the era negotiated."""

    generation: int
    session: S
    now: float


class Failed(msgspec.Struct, frozen=True):
    """The connection could not be made, or has ended by itself; `idle` if it was open and no call was in flight."""

    generation: int
    problem: WicketError
    now: float
    idle: bool = False


class Lost(msgspec.Struct, frozen=True):
    """The upstream has lost the session, or the connection was gone before sending: not a failed call."""

    generation: int


class Answered(msgspec.Struct, frozen=True):
    """A call was answered: earlier failures no longer count, once the connection has lasted for a while.

    Not before: a server that lists its tools and ends at the next call must not be started again and again.
    """

    generation: int
    now: float


class Rested(msgspec.Struct, frozen=True):
    """The session has been unused for long enough."""

    generation: int


class Stopped(msgspec.Struct, frozen=True):
    """The session has been closed."""

    generation: int


class Closed(msgspec.Struct, frozen=True):
    """The upstream must not be used any more."""


Event: TypeAlias = "Needed | Connected[S] | Failed | Lost | Answered | Rested | Stopped | Closed"

# Commands


class Connect(msgspec.Struct, frozen=True):
    """Connect after a pause, in seconds; report `Connected` or `Failed` with this generation."""

    generation: int
    after: float


class Abandon(msgspec.Struct, frozen=True):
    """The connection of this generation that is being opened is no longer needed."""

    generation: int


class Admit(msgspec.Struct, Generic[S], frozen=True):
    """Let all waiting callers use this session."""

    session: S


class Reject(msgspec.Struct, frozen=True):
    """Fail all waiting callers."""

    problem: WicketError


class Close(msgspec.Struct, Generic[S], frozen=True):
    """Close this session and report `Stopped` with this generation."""

    generation: int
    session: S


Command: TypeAlias = "Connect | Abandon | Admit[S] | Reject | Close[S]"


class Trigger(StrEnum):
    """An event, with the details that decide the transition."""

    NEEDED = "needed"
    NEEDED_TOO_SOON = "needed during the pause"
    CONNECTED = "connected"
    FAILED = "failed"
    FAILED_TOO_OFTEN = "failed too often"
    TURNED_AWAY = "turned away"
    LOST = "lost"
    UNAUTHENTICATED = "needs sign-in"
    ANSWERED = "answered"
    RESTED = "rested"
    STOPPED = "stopped"
    CLOSED = "closed"


class Act(StrEnum):
    CONNECT = "connect"
    ABANDON = "abandon"
    ADMIT = "admit"
    REJECT = "reject"
    CLOSE = "close"


TABLE: dict[tuple[State, Trigger], tuple[State, tuple[Act, ...]]] = {
    (State.IDLE, Trigger.NEEDED): (State.STARTING, (Act.CONNECT,)),
    (State.IDLE, Trigger.CLOSED): (State.CLOSED, ()),
    (State.WAITING, Trigger.NEEDED): (State.STARTING, (Act.CONNECT,)),
    (State.WAITING, Trigger.NEEDED_TOO_SOON): (State.WAITING, (Act.REJECT,)),
    (State.WAITING, Trigger.CLOSED): (State.CLOSED, ()),
    (State.BROKEN, Trigger.NEEDED): (State.STARTING, (Act.CONNECT,)),
    (State.BROKEN, Trigger.NEEDED_TOO_SOON): (State.BROKEN, (Act.REJECT,)),
    (State.BROKEN, Trigger.CLOSED): (State.CLOSED, ()),
    (State.STARTING, Trigger.CONNECTED): (State.READY, (Act.ADMIT,)),
    (State.STARTING, Trigger.FAILED): (State.WAITING, (Act.ABANDON, Act.REJECT)),
    (State.STARTING, Trigger.FAILED_TOO_OFTEN): (State.BROKEN, (Act.ABANDON, Act.REJECT)),
    (State.STARTING, Trigger.TURNED_AWAY): (State.WAITING, (Act.ABANDON, Act.REJECT)),
    (State.STARTING, Trigger.UNAUTHENTICATED): (State.IDLE, (Act.ABANDON, Act.REJECT)),
    (State.STARTING, Trigger.CLOSED): (State.CLOSED, (Act.ABANDON, Act.REJECT)),
    (State.READY, Trigger.NEEDED): (State.READY, (Act.ADMIT,)),
    (State.READY, Trigger.ANSWERED): (State.READY, ()),
    (State.READY, Trigger.FAILED): (State.WAITING, ()),
    (State.READY, Trigger.FAILED_TOO_OFTEN): (State.BROKEN, ()),
    (State.READY, Trigger.LOST): (State.IDLE, ()),
    (State.READY, Trigger.UNAUTHENTICATED): (State.IDLE, ()),
    (State.READY, Trigger.RESTED): (State.STOPPING, (Act.CLOSE,)),
    (State.READY, Trigger.CLOSED): (State.CLOSED, (Act.CLOSE,)),
    (State.STOPPING, Trigger.NEEDED): (State.RESTARTING, ()),
    (State.STOPPING, Trigger.STOPPED): (State.IDLE, ()),
    (State.STOPPING, Trigger.CLOSED): (State.CLOSED, ()),
    (State.RESTARTING, Trigger.STOPPED): (State.STARTING, (Act.CONNECT,)),
    (State.RESTARTING, Trigger.CLOSED): (State.CLOSED, (Act.REJECT,)),
    (State.CLOSED, Trigger.NEEDED): (State.CLOSED, (Act.REJECT,)),
}
"""The next state and commands for each trigger. Triggers that are not listed change nothing, except that a session that
arrives too late is closed.
"""


def jitter(pause: float) -> float:
    """Half of a pause or more, at random, so that upstreams that failed together do not reconnect together."""
    return random.uniform(pause / 2, pause)


class Life(Generic[S]):
    """The state of one upstream, and its last problem."""

    def __init__(self, server: str, shorten: Callable[[float], float] = jitter) -> None:
        """`shorten` turns the longest pause before a new attempt into the actual one."""
        self.state = State.IDLE
        self.session: S | None = None
        self.generation = 0
        """The number of the current or last connection."""
        self.failures = 0
        """In a row."""
        self.retry_at = 0.0
        self._turned_away = False
        """Whether the server asked for the pause until `retry_at`."""
        self._connected_at = 0.0
        self.problem = ""
        """Why the last connection failed or ended; empty once another one is open."""
        self.hint = ""
        """What to do about that; empty if nobody knows."""
        self.stderr: tuple[str, ...] = ()
        """The last stderr lines of that connection's server."""
        self._server = server
        self._shorten = shorten

    def __repr__(self) -> str:
        count = f"{self.failures} failure{'' if self.failures == 1 else 's'}"
        trouble = f", {count}: {self.problem}" if self.failures else ""
        return f"<{self.state}{trouble}>"

    def on(self, event: "Event[S]") -> "list[Command[S]]":
        """Process an event; returns the commands to carry out, in this order."""
        row = TABLE.get((self.state, trigger)) if (trigger := self._trigger(event)) else None
        if row is None:
            return [Close(event.generation, event.session)] if isinstance(event, Connected) else []
        before = self.state
        leaving = self.session
        self.state, acts = row
        if isinstance(event, Connected):
            self.session, self._connected_at = event.session, event.now
            self.problem = self.hint = ""
        elif self.state is not State.READY:
            self.session = None
        if isinstance(event, Failed):
            self._count(event, trigger)
        elif isinstance(event, Answered) and event.now >= self._connected_at + STEADY_AFTER:
            self.failures = 0
        return [self._command(act, before, event, leaving) for act in acts]

    def _trigger(self, event: "Event[S]") -> Trigger | None:
        """The trigger for an event in this state; None for an event of another connection."""
        match event:
            case Needed(now):
                closed = self.state is State.BROKEN or (self.state is State.WAITING and self._turned_away)
                early = closed and now < self.retry_at
                return Trigger.NEEDED_TOO_SOON if early else Trigger.NEEDED
            case Closed():
                return Trigger.CLOSED
            case _ if event.generation != self.generation:
                return None
            case Failed(_, NeedsSignIn() | NoOwner() | Moved()):  # not a failure: try again as soon as that has changed
                return Trigger.UNAUTHENTICATED
            case Failed(_, Unavailable(retry_after=float())) if self.state is State.STARTING:
                return Trigger.TURNED_AWAY
            case Failed():
                often = self.failures + 1 >= BREAKER_FAILURES and not event.idle
                return Trigger.FAILED_TOO_OFTEN if often else Trigger.FAILED
            case Connected():
                return Trigger.CONNECTED
            case Lost():
                return Trigger.LOST
            case Answered():
                return Trigger.ANSWERED
            case Rested():
                return Trigger.RESTED
            case Stopped():
                return Trigger.STOPPED

    def _count(self, failed: Failed, trigger: Trigger | None) -> None:
        self.problem = summarize(failed.problem)
        self.hint = "" if isinstance(failed.problem, Crashed) else failed.problem.hint  # a crash's is for the caller
        self.stderr = failed.problem.stderr if isinstance(failed.problem, UpstreamError) else ()
        if isinstance(failed.problem, NeedsSignIn | NoOwner | Moved):
            return
        self._turned_away = trigger is Trigger.TURNED_AWAY
        if isinstance(failed.problem, Unavailable) and failed.problem.retry_after is not None and self._turned_away:
            self.retry_at = failed.now + min(max(failed.problem.retry_after, SHORTEST_WAIT), LONGEST_WAIT)
            return
        self.failures = 1 if failed.idle else self.failures + 1
        self.retry_at = failed.now + self._shorten(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.failures - 1)))

    def _command(self, act: Act, before: State, event: "Event[S]", leaving: S | None) -> "Command[S]":
        match act:
            case Act.CONNECT:
                self.generation += 1
                pause = self.retry_at - event.now if before is State.WAITING and isinstance(event, Needed) else 0.0
                return Connect(self.generation, max(0.0, pause))
            case Act.ABANDON:
                return Abandon(self.generation)
            case Act.REJECT:
                return Reject(self._rejection(before, event))
            case Act.ADMIT if self.session is not None:
                return Admit(self.session)
            case Act.CLOSE if leaving is not None:
                return Close(self.generation, leaving)
            case Act.ADMIT | Act.CLOSE:
                raise AssertionError(f"no session to {act} in {before}")

    def _rejection(self, before: State, event: "Event[S]") -> WicketError:
        name = self._server
        match event:
            case Failed(_, Crashed() as crash):  # no call was sent yet: trying again is safe
                hint = "Run its command by hand to see why."
                return Unavailable(name, crash.message, hint=hint, stderr=crash.stderr)
            case Failed(_, problem):
                return problem
            case Needed(now) if before is State.BROKEN:
                reason = f"Server '{name}' failed {self.failures} times in a row: {self.problem}"
                wait = self.retry_at - now
                return Unavailable(
                    name, reason, hint=f"It is tried again in {max(1, wait):.0f} s; `wicket doctor` shows more."
                )
            case Needed(now) if before is State.WAITING:
                problem = Unavailable(name, self.problem, hint=f"It is tried again in {self.retry_at - now:.0f} s.")
                problem.retry_after = self.retry_at - now
                return problem
            case Needed():
                return Unavailable(name, f"Server '{name}' is stopped: it was removed, or the gateway is closing.")
            case _:
                text = f"Server '{name}' was stopped or reconfigured while it started."
                return Unavailable(name, text, hint="Try again.")


def summarize(problem: WicketError) -> str:
    """What happened, with the line of the server's stderr that says most, on one line for a list of servers."""
    words = problem.message.splitlines()[0] if problem.message else type(problem).__name__
    line = _most_telling(problem.stderr) if isinstance(problem, UpstreamError) and problem.stderr else ""
    return clean(f"{words} It said: {mask_assignments(line)}" if line else words, 300)


_ERROR = re.compile(r"\b\w*(?:[Ee]rror|ERROR|[Ee]xception|[Ff]atal|FATAL)\b")


def _most_telling(lines: Sequence[str]) -> str:
    """The first line about an error, or else the last one: `Node.js v22` or advice may follow the reason."""
    return next((line for line in lines if _ERROR.search(line)), lines[-1])
