"""The life of an upstream, told event by event. Pauses are whole seconds: nothing is random here."""

import pytest

from tests.unit.transcript import Transcript
from wicket_mcp.errors import Crashed, ProtocolViolation, Unavailable, WicketError
from wicket_mcp.upstream.deadline import LONGEST_WAIT
from wicket_mcp.upstream.lifecycle import (
    STEADY_AFTER,
    TABLE,
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
    Needed,
    Reject,
    Rested,
    State,
    Stopped,
    Trigger,
    summarize,
)

GONE = Unavailable("x", "It is gone.")


@pytest.fixture
def life() -> Life[str]:
    return Life("x", shorten=lambda pause: pause)


@pytest.fixture
def told(life: Life[str]) -> "Transcript[Event[str]]":
    return Transcript(life.on)


def stopped_while_starting() -> WicketError:
    return Unavailable("x", "Server 'x' was stopped or reconfigured while it started.")


def test_it_is_connected_to_once_for_all_who_need_it(life: Life[str], told: "Transcript[Event[str]]") -> None:
    assert (
        told
        >> Needed(0)
        << Connect(generation=1, after=0.0)
        >> Needed(1)
        >> Connected(1, "first", now=0)
        << Admit("first")
        >> Needed(2)
        << Admit("first")
    )
    assert (life.state, life.session) == (State.READY, "first")


def test_one_that_died_between_greeting_and_adoption_is_never_installed(
    life: Life[str], told: "Transcript[Event[str]]"
) -> None:
    """B2: the connection reports its end first, and only then does the greeting arrive."""
    assert (
        told
        >> Needed(0)
        << Connect(1, after=0.0)
        >> Failed(1, GONE, now=1)
        << Abandon(1)
        << Reject(GONE)
        >> Connected(1, "dead", now=0)
        << Close(1, "dead")
        >> Stopped(1)
    )
    assert (life.state, life.session, life.failures) == (State.WAITING, None, 1)
    assert told >> Needed(2) << Connect(2, after=0.0) >> Connected(2, "alive", now=0) << Admit("alive")
    assert life.session == "alive"


def test_who_needs_one_that_is_being_stopped_gets_the_next(life: Life[str], told: "Transcript[Event[str]]") -> None:
    """B4: the session is gone from the moment that idleness is decided, not when it is closed."""
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Connected(1, "old", now=0)
        << Admit("old")
        >> Rested(1)
        << Close(1, "old")
    )
    assert (life.state, life.session) == (State.STOPPING, None)
    assert told >> Needed(600) >> Needed(600)
    assert (life.state, life.session) == (State.RESTARTING, None)
    assert told >> Stopped(1) << Connect(2, 0.0) >> Connected(2, "new", now=0) << Admit("new")


def test_one_that_nobody_needs_any_more_is_idle_once_stopped(life: Life[str], told: "Transcript[Event[str]]") -> None:
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Connected(1, "s", now=0)
        << Admit("s")
        >> Rested(1)
        << Close(1, "s")
        >> Failed(1, GONE, now=1)
        >> Stopped(1)
    )
    assert (life.state, life.failures) == (State.IDLE, 0)


def test_what_an_old_connection_reports_late_changes_nothing(life: Life[str], told: "Transcript[Event[str]]") -> None:
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Connected(1, "old", now=0)
        << Admit("old")
        >> Answered(1, now=0)
        >> Failed(1, GONE, now=1)
        >> Needed(1)
        << Connect(2, 0.5)
        >> Connected(2, "new", now=0)
        << Admit("new")
    )
    assert told >> Failed(1, GONE, now=2) >> Rested(1) >> Stopped(1) >> Answered(1, now=0)
    assert told >> Connected(1, "ghost", now=0) << Close(1, "ghost")
    assert (life.state, life.session, life.generation, life.failures) == (State.READY, "new", 2, 1)


def test_after_three_failures_in_a_row_it_is_broken_until_the_pause_is_over(
    life: Life[str], told: "Transcript[Event[str]]"
) -> None:
    crash = Crashed("x", "Server 'x' exited with code 3.", stderr=["no config", "bye"])
    rejected = Reject(Unavailable("x", "Server 'x' exited with code 3."))
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Failed(1, crash, now=0)
        << Abandon(1)
        << rejected
        >> Needed(0.25)
        << Connect(2, 0.25)
        >> Failed(2, crash, now=1)
        << Abandon(2)
        << rejected
        >> Needed(1)
        << Connect(3, 1.0)
        >> Failed(3, crash, now=2)
        << Abandon(3)
        << rejected
    )
    assert (life.state, life.problem) == (State.BROKEN, "Server 'x' exited with code 3. It said: bye")
    refusal = "Server 'x' failed 3 times in a row: Server 'x' exited with code 3. It said: bye"
    assert told >> Needed(3) << Reject(Unavailable("x", refusal))
    assert life.state is State.BROKEN
    assert told >> Needed(4) << Connect(4, 0.0) >> Connected(4, "s", now=0) << Admit("s")
    assert (life.failures, life.problem) == (3, "")
    assert (
        told >> Failed(4, crash, now=5) >> Needed(5) << Reject(Unavailable("x", refusal.replace("3 times", "4 times")))
    )


def test_an_answer_of_a_connection_that_lasts_forgives_past_failures(
    life: Life[str], told: "Transcript[Event[str]]"
) -> None:
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Failed(1, GONE, now=0)
        << Abandon(1)
        << Reject(GONE)
        >> Needed(9)
        << Connect(2, 0.0)
        >> Connected(2, "s", now=9)
        << Admit("s")
        >> Answered(2, now=9 + STEADY_AFTER - 1)
    )
    assert life.failures == 1
    assert told >> Answered(2, now=9 + STEADY_AFTER)
    assert life.failures == 0


@pytest.mark.promise("F3", "A server that ends during calls is started again after longer and longer pauses.")
def test_f3_one_that_is_ended_by_calls_is_not_started_again_and_again(life: Life[str]) -> None:
    pauses: list[float] = []
    for _ in range(6):
        life.on(Needed(life.retry_at))
        life.on(Connected(life.generation, "s", now=0))
        life.on(Answered(life.generation, now=1))
        life.on(Failed(life.generation, GONE, now=2))
        pauses.append(life.retry_at - 2)
    assert pauses == [0.5, 1, 2, 4, 8, 16]
    assert life.state is State.BROKEN


def test_one_that_ends_while_nobody_calls_it_is_started_again_at_the_next_call(life: Life[str]) -> None:
    for _ in range(6):
        life.on(Needed(life.retry_at))
        life.on(Connected(life.generation, "s", now=0))
        life.on(Failed(life.generation, GONE, now=2, idle=True))
        assert (life.state, life.retry_at) == (State.WAITING, 2.5)


def test_a_problem_that_is_not_a_crash_is_rejected_with_as_it_is(told: "Transcript[Event[str]]") -> None:
    flood = ProtocolViolation("x", "Server 'x' floods stdout.")
    assert told >> Needed(0) << Connect(1, 0.0) >> Failed(1, flood, now=0) << Abandon(1) << Reject(flood)


@pytest.mark.promise("F3", "The pause between starts grows up to half a minute.")
def test_f3_pauses_grow_up_to_half_a_minute(life: Life[str]) -> None:
    pauses: list[float] = []
    for _ in range(9):
        life.on(Needed(life.retry_at))
        life.on(Failed(life.generation, GONE, now=0))
        pauses.append(life.retry_at)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_one_that_asks_for_a_pause_has_not_failed_and_is_left_alone_until_then(
    life: Life[str], told: "Transcript[Event[str]]"
) -> None:
    busy = Unavailable("x", "Server 'x' is busy.")
    busy.retry_after = 20.0
    for number, start in enumerate((0, 30, 60, 90), 1):
        assert told >> Needed(start) << Connect(number, after=0.0)
        assert told >> Failed(number, busy, now=start) << Abandon(number) << Reject(busy)
        assert told >> Needed(start + 5) << Reject(busy)
    assert (life.state, life.failures) == (State.WAITING, 0)
    assert told >> Needed(110) << Connect(5, 0.0) >> Connected(5, "s", now=110) << Admit("s")


def test_a_server_cannot_ask_for_ever(life: Life[str]) -> None:
    busy = Unavailable("x", "Server 'x' is busy.")
    busy.retry_after = 1e9
    life.on(Needed(0))
    life.on(Failed(1, busy, now=0))
    assert life.retry_at == LONGEST_WAIT


CLOSED = Unavailable("x", "Server 'x' is stopped: it was removed, or the gateway is closing.")


def test_closing_a_ready_one_closes_its_session(life: Life[str], told: "Transcript[Event[str]]") -> None:
    assert told >> Needed(0) << Connect(1, 0.0) >> Connected(1, "s", now=0) << Admit("s") >> Closed() << Close(1, "s")
    assert told >> Stopped(1) >> Closed() >> Needed(1) << Reject(CLOSED)
    assert (life.state, life.session) == (State.CLOSED, None)


def test_closing_one_that_starts_rejects_who_waits_and_closes_what_still_comes(told: "Transcript[Event[str]]") -> None:
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Closed()
        << Abandon(1)
        << Reject(stopped_while_starting())
        >> Connected(1, "late", now=0)
        << Close(1, "late")
    )


def test_closing_one_that_restarts_rejects_who_waits(told: "Transcript[Event[str]]") -> None:
    assert (
        told
        >> Needed(0)
        << Connect(1, 0.0)
        >> Connected(1, "s", now=0)
        << Admit("s")
        >> Rested(1)
        << Close(1, "s")
        >> Needed(1)
        >> Closed()
        << Reject(stopped_while_starting())
        >> Stopped(1)
    )


def test_the_table_reaches_every_state_and_leaves_none_but_closed_without_a_way_on() -> None:
    assert {target for target, _ in TABLE.values()} == set(State), "broken is in the table too"
    assert {state for state, trigger in TABLE if trigger is Trigger.CLOSED} == set(State) - {State.CLOSED}
    needed = {state for state, trigger in TABLE if trigger is Trigger.NEEDED}
    assert needed == set(State) - {State.STARTING, State.RESTARTING}, "there they wait already"
    assert {target for (state, _), (target, _) in TABLE.items() if state is State.CLOSED} == {State.CLOSED}


def test_a_transcript_shows_what_differs() -> None:
    wrong = Transcript(Life[str]("x").on) >> Needed(0) << Connect(generation=7, after=0.0)
    with pytest.raises(AssertionError, match=r"- << Connect\(generation=7") as shown:
        bool(wrong)
    assert "+ << Connect(generation=1" in str(shown.value)


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["starting", "Error: Cannot find module 'x'", "    at Function.resolve", "Node.js v22.1.0"], 1),
        (["Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: no such folder"], 2),
        (["ERROR in-memory databases need --read-write", "Options:", "  - add --read-write"], 0),
        (["0 errors so far", "set API_KEY"], 1),
    ],
)
def test_a_list_of_servers_shows_the_line_that_says_why(lines: list[str], line: int) -> None:
    crash = Crashed("x", "Server 'x' exited with code 1.", stderr=lines)
    assert summarize(crash) == f"Server 'x' exited with code 1. It said: {lines[line].strip()}"
