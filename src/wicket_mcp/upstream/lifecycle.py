"""The life of one upstream as a transition table: events in, state out, no I/O and no clock of its own.

    idle ──START──> starting ──CONNECTED──> ready ──REST──> idle
                        │                     │
                        └──FAILED─┐   ┌──LOST─┘
                                  v   v
                        waiting (retry soon)  ──START──> starting
                        broken  (after 3 failures in a row: calls fail at once until the pause is over)

`CLOSE` ends everything. An answered call (`succeeded`) forgets past failures.
"""

import random
from dataclasses import dataclass, field
from enum import StrEnum

BREAKER_FAILURES = 3
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class State(StrEnum):
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    BROKEN = "broken"
    CLOSED = "closed"


class Event(StrEnum):
    START = "start"
    CONNECTED = "connected"
    FAILED = "failed"
    LOST = "lost"
    REST = "rest"
    CLOSE = "close"


TABLE: dict[tuple[State, Event], State] = {
    (State.IDLE, Event.START): State.STARTING,
    (State.WAITING, Event.START): State.STARTING,
    (State.BROKEN, Event.START): State.STARTING,
    (State.STARTING, Event.CONNECTED): State.READY,
    (State.STARTING, Event.FAILED): State.WAITING,
    (State.STARTING, Event.LOST): State.WAITING,
    (State.READY, Event.LOST): State.WAITING,
    (State.READY, Event.REST): State.IDLE,
    **{(state, Event.CLOSE): State.CLOSED for state in State},
}


@dataclass(slots=True)
class Life:
    """Where an upstream is, and what went wrong last."""

    state: State = State.IDLE
    failures: int = 0
    retry_at: float = 0.0
    problem: str = ""
    dice: random.Random = field(default_factory=random.Random, repr=False)

    def on(self, event: Event, now: float = 0.0, problem: str = "") -> State:
        """Apply `event`; one that makes no sense in this state changes nothing (a race lost, not a fault)."""
        target = TABLE.get((self.state, event))
        if target is None:
            return self.state
        if event in (Event.FAILED, Event.LOST):
            self.failures += 1
            self.problem = problem
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.failures - 1))
            self.retry_at = now + self.dice.uniform(0, pause)
            target = State.BROKEN if self.failures >= BREAKER_FAILURES else State.WAITING
        elif event is Event.CONNECTED:
            self.problem = ""
        self.state = target
        return target

    def succeeded(self) -> None:
        self.failures = 0

    def __repr__(self) -> str:
        trouble = f", {self.failures} failures: {self.problem}" if self.failures else ""
        return f"<{self.state}{trouble}>"
