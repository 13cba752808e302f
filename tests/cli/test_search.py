"""`wicket search`: what it ranks by besides the query, and that it answers like the gateway does."""

import sys
from typing import Any

import pytest
from msgspec import convert

from tests.cli.shell import Shell
from tests.conftest import PEERS, peer, replay
from wicket_mcp import Gateway
from wicket_mcp.cli.catalog import describe_score
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import Config
from wicket_mcp.model import LOCAL
from wicket_mcp.search import Explanation

OFFERS = {
    "mail": {"send_note": "Send a short note to a person", "list_notes": "List the notes that a person got"},
    "chat": {"send_note": "Send a short note to a person", "archive_room": "Compress a room's history into a file"},
}


@pytest.fixture
def notes(shell: Shell) -> Shell:
    """Two servers that both send notes."""
    servers: dict[str, Any] = {}
    for name, tools in OFFERS.items():
        listed: list[dict[str, Any]] = [
            {"name": tool, "description": text, "inputSchema": {}} for tool, text in tools.items()
        ]
        said = encode({"server": name, "serverInfo": {}, "instructions": "", "tools": listed})
        file = shell.write(f"{name}.json", said.decode())
        servers[name] = {"command": sys.executable, "args": [str(PEERS / "replay.py"), str(file)]}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    return shell


def found(shell: Shell, query: str) -> list[str]:
    return [hit["key"] for hit in shell.run("search", query, "--json").json["hits"]]


def pin(shell: Shell, server: str, tool: str) -> None:
    override = {"name": f"my_{tool}", "server": server, "tool": tool}
    (shell.cwd / "tools.overrides.json").write_bytes(encode({"overrides": [override]}))


def test_of_two_tools_that_fit_alike_the_pinned_one_comes_first(notes: Shell) -> None:
    upper, lower = found(notes, "send a note to a person")[:2]
    assert {upper, lower} == {"mail.send_note", "chat.send_note"}
    pin(notes, *lower.split("."))
    assert found(notes, "send a note to a person")[:2] == [lower, upper]
    assert "usage 0.03" in notes.run("search", "send a note to a person", "--explain").out


def test_what_came_of_reading_the_tools_of_a_doubtful_answer_is_shown(notes: Shell) -> None:
    served = notes.run("search", "drop Ann a line that lunch is at one", "--explain").out
    assert "in doubt at first look; read beside the query, the best tool gets +" in served
    unserved = notes.run("search", "delete my notes", "--explain")
    assert "read beside the query, the best tool gets -" in unserved.out
    assert "No tool clearly fits" in unserved.out + unserved.err
    assert "in doubt" not in notes.run("search", "send a note to a person", "--explain").out


def test_the_parts_of_a_score_that_are_shown_add_up() -> None:
    names = ("letters", "meaning", "part", "reranked", "usage", "learned", "named", "deprecated", "intent", "judged")
    parts = {name: float(number) for number, name in enumerate(names, 1)}
    line = describe_score(convert({**parts, "score": sum(parts.values())}, Explanation))
    score, sums = line.removeprefix("score ").split(" = ")
    assert sum(float(part.split()[-1]) for part in sums.split(" + ")) == float(score) == 55.0


def test_a_pinned_tool_does_not_bury_a_far_better_match(notes: Shell) -> None:
    for query in ("send a note to a person", "compress the history of a room"):
        before = found(notes, query)
        pin(notes, "mail", "list_notes")
        assert found(notes, query)[0] == before[0] != "mail.list_notes"


def test_a_server_is_named_loosely_and_a_wrong_name_is_answered_with_near_ones(notes: Shell) -> None:
    hits = notes.run("search", "note", "--server", "MAIL", "--json").json["hits"]
    assert {hit["server"] for hit in hits} == {"mail"}
    done = notes.run("search", "note", "--server", "mial")
    assert done.code == 2
    assert "mail" in done.err


async def test_servers_that_were_added_at_run_time_are_searched_too(shell: Shell) -> None:
    config = shell.cwd / "wicket.toml"
    config.write_text(f"allow_runtime_servers = true\nstate_dir = '{shell.home / 'state'}'\n")
    added = Config.from_dict({"servers": {"late": peer("Echo")}}).servers[0]
    async with Gateway.open(config) as gateway:
        await gateway.registry.managed.register(added, LOCAL)
    assert "late.echo" in found(shell, "echo a message")


def test_a_deprecated_tool_ranks_below_its_successor_and_says_so(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"files": replay("filesystem")}}))
    for query in ("read a file", "read the complete contents of a file as text", "read file notes.txt"):
        hits = shell.run("search", query, "--limit", "20", "--json").json["hits"]
        order = [hit["key"] for hit in hits]
        assert order.index("files.read_text_file") < order.index("files.read_file"), query
    assert "DEPRECATED: Use read_text_file" in shell.run("search", "read a file", "--limit", "20").out


@pytest.mark.promise("F2", "`wicket search` waits three seconds too, and names who is still starting.")
def test_f2_a_server_that_never_answers_is_named_and_the_others_are_searched(shell: Shell) -> None:
    servers = {"mail": replay("time"), "silent": peer("NeverAnswers", connect_timeout=600)}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    for _ in range(2):
        done = shell.run("search", "what time is it in Paris", "--json")
        assert done.json["hits"][0]["server"] == "mail"
        assert "still starting, and not searched: silent. To wait for all: wicket servers" in done.err


def test_while_nothing_is_known_the_first_server_that_answers_is_waited_for(shell: Shell) -> None:
    servers = {"late": peer("SlowStart", env={"SLOW_START": "4"}), "silent": peer("NeverAnswers", connect_timeout=600)}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    done = shell.run("search", "echo the message", "--json")
    assert done.json["hits"][0]["key"] == "late.echo"
    assert "not searched: silent." in done.err
