"""Splitting a need, and ranking what serves it."""

import asyncio

import pytest

from tests.peers.http_faults import JSON, HttpPeer, Received, Says, send
from tests.registry.conftest import OpenFacade
from wicket_mcp.codec import encode
from wicket_mcp.model import LOCAL
from wicket_mcp.registry.discovery import needs_of


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("I need to manage my files and emails efficiently", [("fil",), ("email",)]),
        ("search the web, then summarise PDF documents", [("search", "web"), ("summaris", "pdf", "document")]),
        ("database", [("databas",)]),
        ("files & folders; calendars", [("fil",), ("fold",), ("calendar",)]),
    ],
)
def test_a_need_is_split_at_its_borders(query: str, terms: list[tuple[str, ...]]) -> None:
    assert [need.terms for need in needs_of(query)] == terms


def test_a_need_of_filler_alone_is_still_a_need() -> None:
    assert [need.text for need in needs_of("help me with my workflow")] == ["help me with my workflow"]
    assert needs_of("  ") == ()


def test_a_flood_of_needs_is_bounded() -> None:
    assert len(needs_of(" and ".join(f"thing{number}" for number in range(1000)))) <= 6


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("read and write files on my disk", "filesystem"),
        ("what time is it in Tokyo", "time"),
        ("commit changes to a git repository", "git"),
        ("create a Jira ticket", "mcp-atlassian"),
        ("send an email with Gmail", "workspace-mcp"),
        ("run SQL on DuckDB", "mcp-server-motherduck"),
        ("take a screenshot of a web page in the browser", "playwright-mcp"),
        ("post a message to a Slack channel", "slack"),
    ],
)
async def test_a_plain_need_finds_its_server(open_facade: OpenFacade, query: str, expected: str) -> None:
    found, _ = await (await open_facade()).discover(query, LOCAL, limit=3)
    assert expected in [known.id for known in found]


@pytest.mark.parametrize("query", ["'; DROP TABLE registry_server; --", "\x00", "((((", "%_", "🙂" * 500, "a" * 2000])
@pytest.mark.promise("T27", "Any text is a valid query.")
async def test_t27_any_text_is_a_query(open_facade: OpenFacade, query: str) -> None:
    facade = await open_facade()
    found, _ = await facade.discover(query, LOCAL, limit=5)
    assert len(found) <= 5
    await facade.advise(query, query, 5, LOCAL)
    found, _ = await facade.discover("what time is it in Tokyo", LOCAL, limit=3)
    assert "time" in [known.id for known in found], "nothing is damaged"


async def test_a_stuffed_record_does_not_win_for_what_it_is_not(open_facade: OpenFacade) -> None:
    facade = await open_facade()
    stuffing = "email gmail calendar files git github slack database sql browser maps search weather " * 20
    await facade.registry.publish(
        {
            "name": "io.github.mallory/best",
            "description": "The best server for everything",
            "version": "1.0.0",
            "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"description": stuffing}},
        },
        LOCAL,
    )
    for query in (
        "send an email with Gmail",
        "commit changes to a git repository",
        "post a message to a Slack channel",
    ):
        found, _ = await facade.discover(query, LOCAL, limit=1)
        assert found[0].id != "best"


class Opinionated(HttpPeer):
    """A chat endpoint that prefers what comes last, and makes a server up."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        lines = request.body["messages"][-1]["content"].splitlines()
        ids = [line[2:].partition(":")[0] for line in lines if line.startswith("- ")]
        said = encode({"ids": ["made-up", *reversed(ids)]}).decode()
        send(writer, 200, JSON, encode({"choices": [{"message": {"content": said}}]}))


async def ids(open_facade: OpenFacade) -> list[str]:
    facade = await open_facade()
    advice, known = await facade.advise("manage files, emails and a git repository", "", 3, LOCAL)
    assert [one.record.name for one in advice.recommendations] == [one.record.name for one in known]
    return [one.id for one in known]


async def test_an_advisor_may_reorder_but_not_add(open_facade: OpenFacade, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = await ids(open_facade)
    async with Opinionated() as model:
        monkeypatch.setenv("WICKET_ADVISOR", f"{model.url}#small")
        assert await ids(open_facade) == list(reversed(plain))
        assert model.received[0].body["model"] == "small"


@pytest.mark.parametrize("said", [b"", b"[]", b'{"choices": []}', b'{"choices": [{"message": {"content": "no"}}]}'])
async def test_an_advisor_that_makes_no_sense_changes_nothing(
    open_facade: OpenFacade, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    plain = await ids(open_facade)
    async with Says(200, JSON, said) as model:
        monkeypatch.setenv("WICKET_ADVISOR", model.url)
        assert await ids(open_facade) == plain
    monkeypatch.setenv("WICKET_ADVISOR", "http://127.0.0.1:1/chat/completions")
    assert await ids(open_facade) == plain
