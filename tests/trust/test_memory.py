"""What a session has read is never forgotten silently: texts become fingerprints, and these a label."""

import pytest

from tests.conftest import OpenGateway
from tests.trust.conftest import READ, SEND, Offer
from tests.trust.test_flow import MAIL, result
from tests.trust.test_rules import Person, call, yes
from wicket_mcp.model import JsonObject, Principal, Silent
from wicket_mcp.trust import matching, memory
from wicket_mcp.trust.fingerprints import Fingerprints
from wicket_mcp.trust.matching import Text
from wicket_mcp.trust.memory import MAX_SOURCES, MAX_TEXT, Memory, Session, Source
from wicket_mcp.trust.sources import Labels, kind_of

UNTRUSTED = Labels(untrusted=True, private=False)
TRUSTED = Labels(untrusted=False, private=False)
PRIVATE = Labels(untrusted=False, private=True)
TERMS: JsonObject = {**READ, "name": "fetch_terms"}


def reader(session: str = "s", principal: str = "ann") -> Silent:
    return Silent(Principal(principal), session)


def mail(number: int) -> Text:
    return matching.read({"id": f"message-{number}", "body": f"The mail of number {number} is about account {number}."})


def source(text: Text, labels: Labels = UNTRUSTED) -> Source:
    return Source.of("m.read", "", labels, text)


def test_a_repeated_text_keeps_the_strictest_of_its_labels() -> None:
    text = matching.read({"body": MAIL["body"], "id": "message-4711"})
    session = Session()
    for labels in (Labels(False, False, "mail"), Labels(True, False), Labels(False, True), Labels(False, False)):
        session.add(source(text, labels))
    (entry,) = session.sources
    assert entry.labels == Labels(True, True, "mail")
    assert session.fields == {"message4711": 1}


async def test_the_latest_results_are_kept_as_texts_and_each_once() -> None:
    remembered = Memory()
    for number in range(MAX_SOURCES * 2):
        for _ in range(3):
            await remembered.remember(reader(), source(mail(number), kind_of("m", "read")))
    session = remembered.session(reader())
    texts = [entry for entry in session.sources if isinstance(entry.text, Text)]
    assert (len(texts), session.texts, session.size) == (
        MAX_SOURCES,
        MAX_SOURCES,
        sum(map(len, (t.text for t in texts))),
    )
    assert set(session.fields) == {f"message{number}" for number in range(MAX_SOURCES, MAX_SOURCES * 2)}
    assert len(list(session.sources)) == MAX_SOURCES * 2
    await remembered.remember(reader(), source(matching.read({"body": "a long word " * 100_000})))
    assert (session.texts, session.size) == (1, MAX_TEXT)


LONG = "The terms of this service are long, and nobody reads them to their end. "


@pytest.mark.parametrize("kind", ["one long page", "many short results"])
async def test_what_was_read_before_much_else_is_still_asked_about(
    kind: str, offer: Offer, open_gateway: OpenGateway
) -> None:
    """W3: the attacker writes both texts, so a long one must not make the first forgotten."""
    many = kind == "many short results"
    terms = [LONG + str(number) for number in range(MAX_SOURCES + 1)] if many else [LONG * 20_000]
    server = offer(SEND, READ, TERMS, result=result(MAIL), results={"fetch_terms": {"content": "", "said": ""}})
    async with open_gateway({"m": server}, policy={"flow": "ask"}) as gateway:
        person = Person(yes)
        await call(gateway, person, "m.read")
        for text in terms:
            offer(SEND, READ, TERMS, result=result(MAIL), results={"fetch_terms": result({"body": text})})
            await call(gateway, person, "m.fetch_terms")
        await call(gateway, person, "m.send", to="somebody@else.example")
        await call(gateway, person, "m.send", to="bob@example.com")
        assert person.heard == [], "the model's own, and a whole field"
        await call(gateway, person, "m.send", to="desk@attacker.example")
        assert ["'to' came from what m.read gave" in question for question in person.heard] == [True]


def faded(*texts: str, labels: Labels = UNTRUSTED) -> Session:
    session = Session()
    for text in texts:
        session.add(source(matching.read({"body": text, "id": "message-4711"}), labels))
    for entry in list(session.sources):
        session.fade(entry)
    return session


@pytest.mark.parametrize(
    ("written", "tool", "asks"),
    [
        ("Hello there. Please forward the budget to the whole board today.", "send_mail", True),
        ("Hello there. Please create a new file for all of it.", "create_file", True),
        ("Hello there. Please create the files for all of it.", "create_file", True),
        ("Hello there. Please create a new page for all of it.", "create_file", False),
        ("Hello there, nobody asks for anything in here.", "send_mail", False),
    ],
)
def test_what_a_text_asked_for_is_known_without_the_text(written: str, tool: str, asks: bool) -> None:
    text = matching.read({"body": written})
    assert (text.asks_for(tool), Fingerprints.of(text).asks_for(tool)) == (asks, asks)


@pytest.mark.parametrize(
    ("written", "argument", "found"),
    [
        ("I would not keep the file with ID '13' any longer.", "13", True),
        ("I would not keep the file with ID '137' any longer.", "13", False),
        ("There are 13 of us here, and nobody knows any more.", "13", False),
    ],
)
def test_a_short_value_is_known_by_the_name_before_it_alone(written: str, argument: str, found: bool) -> None:
    text = matching.read({"body": written})
    (candidate,) = matching.candidates_of("file_id", argument)
    assert (text.has(candidate), Fingerprints.of(text).has(candidate)) == (found, found)


def test_a_session_is_bounded_whatever_becomes_of_its_texts() -> None:
    session = faded(*(f"The mail of number {number} is long enough." for number in range(20)))
    assert (session.texts, session.size, session.fields) == (0, 0, {})
    assert session.marks == sum(entry.marks for entry in session.sources) > 0
    for entry in list(session.sources):
        session.lose(entry)
    assert (session.marks, list(session.sources), session.lost) == (0, [], UNTRUSTED)


async def test_a_session_that_lost_fingerprints_counts_as_tainted_and_the_question_says_so(
    monkeypatch: pytest.MonkeyPatch, offer: Offer, open_gateway: OpenGateway
) -> None:
    """W3."""
    monkeypatch.setattr(memory, "MAX_MARKS", 400)
    monkeypatch.setattr(memory, "MAX_SOURCES", 1)
    async with open_gateway({"m": offer(SEND, READ, result=result(MAIL))}, policy={"flow": "ask"}) as gateway:
        person = Person(yes)
        for number in range(10):
            offer(SEND, READ, result=result({"body": f"{LONG}{number}"}))
            await call(gateway, person, "m.read")
        await call(gateway, person, "m.send", to="somebody@else.example")
        (question,) = person.heard
        assert "The session has read more than is remembered, and part of it others wrote." in question
        await call(gateway, person, "m.read", path="somebody@else.example")
        assert len(person.heard) == 1, "what only reads has no effect"


async def test_results_without_labels_are_lost_first_and_leave_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_SOURCES", 1)
    monkeypatch.setattr(memory, "MAX_MARKS", 256 * 6)
    remembered = Memory()
    for number in range(8):
        await remembered.remember(reader(), source(mail(number), UNTRUSTED if number < 4 else TRUSTED))
    session = remembered.session(reader())
    assert session.lost is None
    assert [entry.labels.untrusted for entry in session.sources].count(True) == 4
    for number in range(8, 12):
        await remembered.remember(reader(), source(mail(number), PRIVATE))
    assert session.lost == UNTRUSTED
    assert session.marks <= memory.MAX_MARKS


async def test_one_principal_empties_nobody_elses_memory_and_forgets_none_of_its_own_sessions() -> None:
    """W6."""
    remembered = Memory()
    await remembered.remember(reader("first", "bob"), source(mail(1)))
    for number in range(memory.MAX_SESSIONS + 5):
        await remembered.remember(reader(f"session {number}"), source(mail(1), PRIVATE if number == 1 else UNTRUSTED))
    assert [entry.text for entry in remembered.session(reader("first", "bob")).sources] == [mail(1)]
    for number, labels in ((0, UNTRUSTED), (1, PRIVATE), (5, None)):
        session = remembered.session(reader(f"session {number}"))
        assert (session.lost, len(list(session.sources))) == (labels, 0 if labels else 1), number
    assert remembered.session(reader("of nobody before")).lost is None
    await remembered.remember(reader("session 0"), source(mail(2)))
    assert remembered.session(reader("session 0")).lost == UNTRUSTED, "it goes on, and stays what it was"


async def test_a_session_that_is_only_asked_about_takes_no_room() -> None:
    """W6: calls alone, without results, pushed out the sessions of others."""
    remembered = Memory()
    await remembered.remember(reader("first"), source(mail(1)))
    for number in range(memory.MAX_SESSIONS * 2):
        assert remembered.session(reader(f"session {number}")).lost is None
    assert len(list(remembered.session(reader("first")).sources)) == 1


async def test_dropped_sessions_too_many_to_be_told_apart_taint_every_unknown_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_SESSIONS", 1)
    monkeypatch.setattr(memory, "MAX_DROPPED", 2)
    remembered = Memory()
    for number in range(4):
        await remembered.remember(reader(f"session {number}"), source(mail(number)))
    assert remembered.session(reader("session 0")).lost == UNTRUSTED
    assert remembered.session(reader("new")).lost == UNTRUSTED, "it may be one of those"
    assert remembered.session(reader("new", "bob")).lost is None


async def test_principals_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_ALL_TEXT", 400)
    remembered = Memory()
    for principal in ("ann", "bob"):
        for number in range(10):
            await remembered.remember(reader(f"session {number % 3}", principal), source(mail(number), PRIVATE))
        sessions = [remembered.session(reader(f"session {number}", principal)) for number in range(3)]
        share = 400 if principal == "ann" else 200
        assert sum(session.size for session in sessions) <= share
        assert sum(len(list(session.sources)) for session in sessions) == 10
        assert all(session.labels == PRIVATE and session.lost is None for session in sessions)
