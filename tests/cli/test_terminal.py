"""On a terminal: colour, a bar for what takes long, help for who is lost, and nothing that an upstream could type."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.shell import Shell, Terminal
from tests.conftest import peer
from wicket_mcp.cli import app
from wicket_mcp.codec import encode

HOSTILE = "\x1b]0;owned\x07\x1b[2Jcalm\x9b31m\u202ewords\u200b"
NASTY = """\
import json, sys
TEXT = "\\x1b]0;owned\\x07\\x1b[2Jcalm\\x9b31m\\u202ewords\\u200b"
SCHEMA = {"type": "object", "properties": {TEXT: {"type": "string"}}}
TOOL = {"name": "nasty", "description": TEXT, "inputSchema": SCHEMA}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": TEXT, "version": TEXT}, "instructions": TEXT},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": TEXT}], "structuredContent": {"k": TEXT}},
    }
    answer = results.get(message["method"])
    body = {"result": answer} if answer else {"error": {"code": -32601, "message": TEXT}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
"""
ESCAPES = ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\u200b", "\x07")


def _nasty(shell: Shell) -> None:
    script = shell.write("nasty.py", NASTY)
    servers = {"nasty": {"command": sys.executable, "args": [str(script)]}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))


@pytest.mark.promise("T16", "No control character of a server reaches a terminal.")
def test_t16_no_control_character_of_an_upstream_reaches_a_terminal(shell: Shell) -> None:
    _nasty(shell)
    verbs = (
        ["servers"],
        ["tools"],
        ["search", "calm words"],
        ["describe", "nasty.nasty"],
        ["call", "nasty.nasty"],
        ["call", "nasty.nasty", "--raw"],
        ["call", "nasty.nasty", "--json"],
        ["tokens"],
    )
    for verb in verbs:
        done = shell.type(*verb)
        assert done.code == 0, done.out
        assert "calm" in done.out or verb == ["tokens"], verb
        assert not [escape for escape in ESCAPES if escape in done.out], verb


def test_json_keeps_the_hostile_text_as_escapes(shell: Shell) -> None:
    _nasty(shell)
    done = shell.run("call", "nasty.nasty", "--json")
    assert done.json["structuredContent"] == {"k": HOSTILE}
    assert not [escape for escape in ESCAPES if escape in done.out]


def test_colour_is_for_terminals_that_want_it(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    assert "\x1b[36mecho.echo\x1b[0m" in shell.type("search", "echo").out
    quiet = Shell(shell.home, shell.cwd, {"NO_COLOR": "1"})
    assert "\x1b[" not in quiet.type("search", "echo").out
    assert "\x1b[" not in shell.run("search", "echo").out


def test_a_table_fits_the_terminal_and_is_whole_in_a_pipe(shell: Shell) -> None:
    described = peer("Echo", description="words " * 40)
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": described}}))
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", shell.type("servers", columns=60).out).splitlines()
    assert max(map(len, narrow)) <= 60
    assert len(narrow) > 2
    whole = shell.run("servers").out.splitlines()
    assert len(whole) == 2
    assert len(whole[1]) > 60


def test_a_bar_shows_while_a_server_takes_long_to_start(shell: Shell) -> None:
    flag = shell.home / "go"
    servers = {"late": {"command": "sh", "args": ["-c", f"until [ -e {flag} ]; do sleep 0.1; done; exec {_echo()}"]}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    with Terminal(shell, ["servers"], 100) as terminal:
        terminal.wait_for("Starting late")
        flag.touch()
        done = terminal.finish()
    assert done.code == 0
    assert "late" in done.out.splitlines()[-1]


@pytest.mark.parametrize("ignored", [False, True], ids=["in front", "in the background of a shell"])
def test_serve_by_hand_says_what_to_do_and_leaves_at_ctrl_c(shell: Shell, ignored: bool) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    with Terminal(shell, ["serve"], 100, interrupts_ignored=ignored) as terminal:
        terminal.wait_for("Ctrl-C ends it.")
        terminal.interrupt()
        assert terminal.finish().code == 0
    assert "wicket serve --http --print-clients" in terminal.shown


def test_help_has_an_example_for_every_verb(shell: Shell) -> None:
    listing = shell.run("--help").out
    verbs = [line.split()[0] for line in listing.splitlines() if line.startswith("  ") and line[2].islower()]
    assert {"init", "import", "add", "serve", "search", "call", "doctor", "tokens"} <= set(verbs)
    assert "..." not in listing.partition("Set up:")[2], "a summary is too long for a narrow terminal"
    assert "Example: wicket search" in shell.run("search", "-h").out
    tree: Any = get_command(app)
    for verb in verbs:
        command = tree.commands[verb]
        assert "Example: wicket " in command.help or hasattr(command, "commands"), verb


def test_a_folder_without_configuration_says_how_to_begin(shell: Shell) -> None:
    done = shell.run("servers")
    assert done.code == 2
    assert "wicket add" in done.err
    assert "Traceback" not in done.err


def _echo() -> str:
    return f"{sys.executable} {Path(__file__).parent.parent / 'peers' / 'stdio_peer.py'} Echo"


@pytest.mark.parametrize("columns", [80, 50])
def test_nothing_is_cut_at_80_columns_nor_at_50(shell: Shell, columns: int) -> None:
    long_name = "a-server-with-quite-a-long-name"
    servers = {
        long_name: peer("Echo", description="words of its own " * 4),
        "keyless": {"command": "x", "env": {"KEY": "${SOME_RATHER_LONG_NAME_OF_A_KEY}"}},
        "leaves": peer("ExitsAtOnce"),
    }
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    shell.write(".cursor/mcp.json", encode({"mcpServers": {long_name: peer("Echo"), "other": peer("Echo")}}).decode())
    typed = {
        ("servers",): (long_name, "SOME_RATHER_LONG_NAME_OF_A_KEY"),
        ("doctor",): (long_name, "export SOME_RATHER_LONG_NAME_OF_A_KEY=…"),
        ("import",): (long_name, "cursor", str(shell.home / ".cursor" / "mcp.json"), "wicket import claude-code"),
        ("tools",): (f"{long_name}.echo",),
        ("status",): (str(shell.cwd / ".mcp.json"),),
        ("search", "echo the message"): (f"{long_name}.echo", "SOME_RATHER_LONG_NAME_OF_A_KEY"),
        ("describe", f"{long_name}.echo"): (f"{long_name}.echo", "message"),
    }
    for verb, texts in typed.items():
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shell.type(*verb, columns=columns).out)
        for text in texts:
            assert text in shown, (verb, shown)
        assert "…" not in re.sub("[=-]…", "", shown), (verb, shown)
        wide = [line for line in shown.splitlines() if len(line) > columns]
        whole = ("/", "fix:", "    | ", "wicket call ")  # to be typed or copied
        kept = [line for line in wide if not any(part in line for part in whole)]
        assert not kept, (verb, kept)


def test_bars_fit_a_narrow_terminal(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shell.type("tokens", columns=50).out).splitlines()
    bars = [line for line in shown if "█" in line]
    assert bars
    assert max(map(len, bars)) <= 50
