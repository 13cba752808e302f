"""When a shim asks its daemon whether it is there, and when it takes it for one that is not."""

import os
from collections.abc import Generator

import pytest

from wicket_mcp.shim.link import ANSWERS_WITHIN, OVERSLEPT, STARTS_WITHIN, Link

pytestmark = pytest.mark.unit

CALL = ("int", 1), "tools/call", b'{"id":1}\n'


@pytest.fixture
def link() -> Generator[Link]:
    """A connection to a daemon that has said its first word."""
    read, write = os.pipe()
    link = Link(write, b"")
    link.ready = True
    yield link
    os.close(read)
    os.close(write)


def due(link: Link) -> float:
    deadline = link.deadline()
    assert deadline is not None
    return deadline


def test_a_daemon_from_which_nothing_is_expected_is_left_alone(link: Link) -> None:
    assert link.deadline() is None
    link.expect(("int", 2), "subscriptions/listen", b"{}\n")
    assert link.deadline() is None, "that is answered when it ends"
    link.look(1e12)
    assert (bytes(link.outgoing), link.silent) == (b"", False)
    link.expect(*CALL)
    assert link.deadline() is not None
    del link.unanswered["int", 1]
    assert link.deadline() is None


def test_it_is_asked_once_and_is_silent_if_it_says_nothing_at_all(link: Link) -> None:
    link.expect(*CALL)
    link.look(due(link) - 0.001)
    assert bytes(link.outgoing) == b""
    asked = due(link)
    link.look(asked)
    assert (bytes(link.outgoing), link.silent) == (b"!ping\n", False)
    assert due(link) == asked + ANSWERS_WITHIN
    link.look(due(link) - 0.001)
    assert not link.silent
    link.look(due(link))
    assert (bytes(link.outgoing), link.silent) == (b"!ping\n", True)


def test_any_word_shows_that_it_is_there_and_it_is_asked_again_later(link: Link) -> None:
    link.expect(*CALL)
    for count in (1, 2, 3):
        link.look(due(link))
        assert bytes(link.outgoing) == b"!ping\n" * count
        link.hear()
    assert not link.silent


def test_a_new_request_does_not_put_off_the_question(link: Link) -> None:
    link.expect(*CALL)
    before = due(link)
    link.expect(("int", 2), "tools/call", b"{}\n")
    assert due(link) == before


def test_a_machine_that_stood_still_says_nothing_about_the_daemon(link: Link) -> None:
    link.expect(*CALL)
    link.look(due(link))
    link.look(due(link) + OVERSLEPT)
    assert not link.silent
    link.look(due(link))
    assert link.silent


def test_a_daemon_that_has_been_told_goodbye_must_still_be_there(link: Link) -> None:
    link.closing = True
    link.look(due(link))
    link.look(due(link))
    assert link.silent


def test_one_that_starts_is_asked_nothing_and_one_of_our_own_never() -> None:
    read, write = os.pipe()
    starting, own = Link(write, b"hello\n"), Link(read, b"", out=write, child=1)
    own.expect(*CALL)
    assert own.deadline() is None
    assert due(starting) > due(Link(write, b"", patience=STARTS_WITHIN - 1))
    starting.look(due(starting))
    assert (bytes(starting.outgoing), starting.silent) == (b"hello\n", True)
    os.close(read)
    os.close(write)
