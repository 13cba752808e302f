"""`wicket call`, and the other verbs that ask a server, as a person or a script uses them."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from wicket_mcp.cli.arguments import parse
from wicket_mcp.codec import encode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import Tool


@pytest.fixture
def echo(shell: Shell) -> Shell:
    """A shell in a folder whose configuration has one healthy server and one that never starts."""
    servers = {"echo": peer("Echo"), "gone": {"command": "no-such-program"}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    return shell


def test_text_goes_to_stdout_alone_and_the_exit_code_tells(echo: Shell) -> None:
    done = echo.run("call", "echo.echo", "message=hello there")
    assert (done.code, done.out, done.err) == (0, "hello there\n", "")
    failed = echo.run("call", "echo.fails")
    assert (failed.code, failed.out) == (1, "it went wrong\n")
    refused = echo.run("call", "echo.refuses")
    assert (refused.code, refused.out) == (1, "")
    assert "not today" in refused.err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_no_error(echo: Shell, unbuffered: str) -> None:
    environment = {**echo.environ, "PYTHONUNBUFFERED": unbuffered}
    for command in (("tools",), ("tools", "--json"), ("describe", "echo.echo")):
        reader, writer = os.pipe()
        os.close(reader)
        program = [sys.executable, "-m", "wicket_mcp", *command]
        done = subprocess.run(
            program, cwd=echo.cwd, env=environment, stdout=writer, stderr=subprocess.PIPE, check=False
        )
        os.close(writer)
        assert done.returncode == 0, done.stderr
        assert b"roken" not in done.stderr


def test_a_server_without_tools_is_no_failure_of_another(echo: Shell) -> None:
    listing = echo.write("nothing.json", '{"tools": []}')
    servers = {"bare": peer("Mutates", env={"LISTING": str(listing)}), "gone": {"command": "no-such-program"}}
    (echo.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    assert echo.run("tools").code == 0
    done = echo.run("tools", "bare")
    assert (done.code, "gone" in done.err) == (0, False)
    assert echo.run("tools", "gone").code == 1


def test_raw_adds_nothing_and_json_is_the_whole_result(echo: Shell) -> None:
    assert echo.run("call", "echo.echo", "message=a\x1b[31mred\x1b[0m", "--raw").out == "a\x1b[31mred\x1b[0m"
    whole = echo.run("call", "echo.rich", "--json").json
    assert whole["vendorTop"] == [1, 2]
    assert whole["structuredContent"]["exact"] == 12345678901234567890123


def test_images_and_audio_are_saved(echo: Shell) -> None:
    shown = echo.run("call", "echo.rich")
    assert shown.out.splitlines()[:2] == ["words", "[image: image/png; --out FILE saves it]"]
    done = echo.run("call", "echo.rich", "--out", "picture.png")
    assert done.code == 0, done.err
    assert (echo.cwd / "picture.png").read_bytes() == b"pixels"
    assert (echo.cwd / "picture-2.png").read_bytes() == b"waves"
    assert "--out" in echo.run("call", "echo.rich", "--out", "no/such/folder.png").err


def test_wrong_arguments_and_names_are_usage_errors_of_one_line(echo: Shell) -> None:
    wrong = echo.run("call", "echo.echo", "massage=hi")
    assert wrong.code == 2
    assert "message: string" in wrong.err
    unknown = echo.run("call", "ecko.echo")
    assert (unknown.code, "echo.echo" in unknown.err) == (2, True)
    assert len(unknown.err.splitlines()) == 1


def test_an_error_is_one_line_and_verbose_gives_the_servers_last_words(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"dies": peer("DiesMidCall")}}))
    brief = shell.run("call", "dies.slow")
    assert brief.code == 1
    assert "natural causes" not in brief.err
    assert "--verbose" in brief.err
    assert "about to die of natural causes" in shell.run("call", "dies.slow", "--verbose").err


def test_a_server_that_cannot_be_asked_is_named_beside_the_answer(echo: Shell) -> None:
    done = echo.run("search", "echo a message back")
    assert done.out.startswith("echo.echo(message: string) -> text - Echo the message back\n")
    assert done.err.startswith("wicket: unavailable: gone (")
    assert done.err.endswith("). What to do: wicket doctor\n")
    assert done.err.count("\n") == 1
    assert "server 'gone' could not be listed: " in echo.run("search", "echo", "--verbose").err
    servers = echo.run("servers")
    assert [line.split()[:3] for line in servers.out.splitlines()[1:]] == [
        ["echo", "ok", "10"],
        ["gone", "failed", "?"],
    ]
    assert "wicket doctor" in servers.err


def test_a_person_reads_about_a_tool_without_json(echo: Shell) -> None:
    said = echo.run("describe", "echo.big").out
    assert said == (
        "echo.big(rows: integer) -> text\n"
        "Return many rows.\n"
        "Takes:\n"
        "- rows (integer, required)\n"
        "Example: wicket call echo.big '{\"rows\":1}'\n"
    )
    done = echo.run("call", *shlex.split(said.splitlines()[-1].partition("wicket call ")[2]))
    assert done.code == 0, done.err
    assert echo.run("describe", "echo.big", "--detail", "full").json["inputSchema"]["required"] == ["rows"]


def test_what_was_typed_wrongly_is_named(echo: Shell) -> None:
    twice = echo.run("call", "echo.echo", "message=a", "message=b")
    assert (twice.code, twice.out) == (2, "")
    assert "'message' is given twice, and takes one value." in twice.err
    assert "missing 'message' (string); unknown 'text'" in echo.run("call", "echo.echo", "text=a").err
    (echo.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"box": peer("Echo")}}))
    assert "It is a server. Its tools: box.echo, box.pid," in echo.run("call", "box", "message=a").err
    assert "say what you want to do" in echo.run("search", " ").err


def test_json_of_every_looking_verb_is_json(echo: Shell) -> None:
    assert {server["name"] for server in echo.run("servers", "--json").json} == {"echo", "gone"}
    assert "echo.pid" in {tool["key"] for tool in echo.run("tools", "echo", "--json").json}
    assert echo.run("search", "echo", "-n", "1", "--json").json["hits"][0]["key"] == "echo.echo"
    assert echo.run("describe", "echo.big", "--json").json[0]["inputSchema"]["required"] == ["rows"]
    status = echo.run("status", "--json").json
    assert status["tools"] == 10
    assert status["servers"]["gone"] == "unseen"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
        "filter": {"type": "object", "properties": {"state": {"type": "string"}, "page": {"type": "integer"}}},
        "either": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "a.b": {"type": "integer"},
        "free": {},
    },
    "$defs": {"id": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["text=5"], {"text": "5"}),
        (["text=a=b"], {"text": "a=b"}),
        (["maybe=null"], {"maybe": "null"}),
        (["maybe:=null"], {"maybe": None}),
        (["count=5", "flag=yes"], {"count": 5, "flag": True}),
        (["tags=1"], {"tags": ["1"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a","b"]'], {"tags": ["a", "b"]}),
        (["ids=1", "ids=2"], {"ids": [1, 2]}),
        (["filter.state=open", "filter.page=2"], {"filter": {"state": "open", "page": 2}}),
        (['either={"a":1}'], {"either": {"a": 1}}),
        (["either=plain"], {"either": "plain"}),
        (["a.b=7"], {"a.b": 7}),
        (["free=12345678901234567890123"], {"free": 12345678901234567890123}),
        (["free=words"], {"free": "words"}),
        (["other=x"], {"other": "x"}),
        (["count=many"], {"count": "many"}),
        (['{"text": "x"}'], {"text": "x"}),
    ],
)
def test_pairs_are_typed_by_the_schema(given: list[str], expected: dict[str, Any]) -> None:
    assert parse(given, Tool("s", "t", {"inputSchema": SCHEMA})) == expected


@pytest.mark.parametrize("given", [["text"], ["=x"], ["{broken"], ["count:=[1,"], ["text=a", "{}"]])
def test_what_is_no_pair_is_refused_with_the_signature_or_the_reason(given: list[str]) -> None:
    with pytest.raises(BadArguments):
        parse(given, Tool("s", "t", {"inputSchema": SCHEMA}))


def test_arguments_from_stdin(echo: Shell, tmp_path: Path) -> None:
    assert echo.run("call", "echo.echo", "-", stdin='{"message": "piped"}').out == "piped\n"


def test_the_name_of_a_disabled_server_is_answered_with_how_to_enable_it(shell: Shell) -> None:
    servers = {"echo": peer("Echo"), "dies": {**peer("Echo"), "enabled": False}}
    lines = [
        f"[servers.{name}]\n" + "".join(_option(*pair) for pair in entry.items()) for name, entry in servers.items()
    ]
    (shell.cwd / "wicket.toml").write_text("\n".join(lines))
    for words in (
        ["search", "x", "--server", "dies"],
        ["call", "dies.foo"],
        ["tools", "Dies"],
        ["describe", "dies.foo"],
    ):
        done = shell.run(*words)
        assert (done.code, done.out, done.err) == (2, "", "wicket: Server 'dies' is disabled: wicket enable dies\n"), (
            words
        )
    assert "disabled" not in shell.run("call", "diesel.foo").err
    assert shell.run("enable", "dies").code == 0
    assert shell.run("call", "dies.echo", "message=hello").out == "hello\n"


def test_a_server_that_another_program_disabled_is_enabled_in_its_file(shell: Shell) -> None:
    file = shell.cwd / ".mcp.json"
    file.write_bytes(encode({"mcpServers": {"off": {**peer("Echo"), "disabled": True}}}))
    assert f"'off' is disabled: enable it in {file}" in shell.run("call", "off.echo").err
    assert "Every server is disabled" in shell.run("tools").err


def test_without_servers_every_verb_that_asks_one_says_what_to_do(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    for words in (["servers"], ["tools"], ["search", "foo"], ["call", "foo.bar"], ["tools", "foo"]):
        done = shell.run(*words)
        assert "No servers yet. Add one: wicket add" in done.err, words
        assert len(done.err.splitlines()) == 1, words
    assert shell.run("search", "foo", "--json").json["hits"] == []


def _option(key: str, value: object) -> str:
    return f"{key} = {encode(value).decode()}\n"
