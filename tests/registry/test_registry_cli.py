"""`wicket keys`, `wicket registry`, `wicket servers --health`, and a pipe under an API key."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS
from tests.registry.command import WICKET, serving, wicket


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    peer = json.dumps([str(PEERS / "stdio_peer.py"), "Echo"])
    (tmp_path / "wicket.toml").write_text(
        f'state_dir = "state"\n[servers.echo]\ncommand = {json.dumps(sys.executable)}\nargs = {peer}\n'
    )
    return tmp_path


def test_a_key_is_shown_once_listed_and_revoked(folder: Path) -> None:
    key = wicket(folder, "keys", "create", "ci", "-s", "register", "--rate", "discovery=7", "--expires", "90d").strip()
    assert key.startswith("wk_")
    listed = json.loads(wicket(folder, "keys", "list", "--json"))
    assert (listed[0]["name"], listed[0]["scopes"], listed[0]["rates"]) == ("ci", ["register"], {"discovery": 7})
    assert listed[0]["state"] == "active"
    assert key not in json.dumps(listed)
    wicket(folder, "keys", "revoke", "ci")
    assert json.loads(wicket(folder, "keys", "list", "--json"))[0]["state"] == "revoked"
    assert "No key named 'ci'" in wicket(folder, "keys", "revoke", "ci", code=2)


def test_a_record_is_published_found_and_deleted(folder: Path) -> None:
    body = {"name": "com.example/otters", "description": "Counts otters in rivers", "version": "1.0.0"}
    (folder / "server.json").write_text(json.dumps(body))
    assert wicket(folder, "registry", "publish", "server.json") == "Published com.example/otters 1.0.0.\n"
    assert "otters" in wicket(folder, "registry", "search", "count otters")
    assert json.loads(wicket(folder, "registry", "show", "otters")) == body
    wicket(folder, "registry", "delete", "com.example/otters", "1.0.0")
    assert "No server named 'otters'" in wicket(folder, "registry", "show", "otters", code=2)


def test_health_is_shown_after_a_call(folder: Path) -> None:
    wicket(folder, "call", "echo.echo", "message=hi")
    (echo,) = json.loads(wicket(folder, "servers", "--health", "--json"))
    assert (echo["id"], echo["status"]) == ("echo", "healthy")
    assert "healthy" in wicket(folder, "servers", "--health")


def test_a_registry_that_is_none_is_said_to_be_none(folder: Path) -> None:
    assert "not the address of a registry" in wicket(folder, "registry", "mirror", "nowhere", code=2)
    assert "cannot be connected to" in wicket(folder, "registry", "mirror", "http://127.0.0.1:1", code=1)


def publish(folder: Path, version: str) -> None:
    body = {"name": "com.example/otters", "description": "Counts otters in rivers", "version": version}
    (folder / "server.json").write_text(json.dumps(body))
    wicket(folder, "registry", "publish", "server.json")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of another gateway."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "wicket.toml").write_text('state_dir = "state"\n')
    publish(folder, "1.0.0")
    return folder


def test_another_registry_is_mirrored_and_then_only_what_changed(folder: Path, source: Path) -> None:
    key = wicket(source, "keys", "create", "mirror", "-s", "discover").strip()
    with serving(source) as origin:
        said = wicket(folder, "registry", "mirror", origin, "--key", key)
        assert re.fullmatch(r"Took 1 record; \d+ were known, 0 could not be used\.\n", said)
        assert json.loads(wicket(folder, "registry", "show", "otters"))["version"] == "1.0.0"
        again = json.loads(wicket(folder, "registry", "mirror", origin, "--json", WICKET_API_KEY=key))
        assert (again["taken"], again["refused"], again["pages"]) == (0, 0, 1)
        publish(source, "1.1.0")
        assert json.loads(wicket(folder, "registry", "mirror", origin, "--json", "--key", key))["taken"] == 2
        assert json.loads(wicket(folder, "registry", "show", "otters"))["version"] == "1.1.0"
        wicket(source, "registry", "delete", "com.example/otters", "1.1.0")
        wicket(source, "registry", "delete", "com.example/otters", "1.0.0")
        wicket(folder, "registry", "mirror", origin, "--key", key)
        assert "No server named 'otters'" in wicket(folder, "registry", "show", "otters", code=2)


def test_a_registry_is_followed_until_one_stops_also_when_it_was_away(
    folder: Path, source: Path, unused_tcp_port: int
) -> None:
    key = wicket(source, "keys", "create", "mirror", "-s", "discover", "--rate", "discovery=0").strip()
    at = f"127.0.0.1:{unused_tcp_port}"
    command = [WICKET, "registry", "mirror", f"http://{at}", "--key", key, "--every", "1s", "-c", "wicket.toml"]
    with ExitStack() as stack:
        with serving(source, at):
            pipe = subprocess.PIPE
            follower = stack.enter_context(subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True))
            stack.callback(follower.terminate)
            assert follower.stdout
            assert follower.stderr
            assert follower.stdout.readline().startswith("Took 1 record;")
        assert "cannot be connected to" in follower.stderr.readline()
        publish(source, "2.0.0")
        with serving(source, at):
            while follower.stdout.readline().startswith("Took 0 records"):
                pass
            assert json.loads(wicket(folder, "registry", "show", "otters"))["version"] == "2.0.0"


def test_a_registry_that_lets_nobody_in_says_so(folder: Path, source: Path) -> None:
    with serving(source) as origin:
        assert "answered HTTP 401" in wicket(folder, "registry", "mirror", origin, code=1)
        assert "the key in --key" in wicket(folder, "registry", "mirror", origin, "--key", "wk_wrong", code=1)


def ask(folder: Path, *calls: dict[str, Any], **variables: str) -> list[Any]:
    """Answers of a gateway over a pipe to a handshake and these tool calls."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": call} for n, call in enumerate(calls, 1)),
    ]
    text = "".join(f"{json.dumps(message)}\n" for message in messages)
    lines = wicket(folder, "serve", "--dialect", "bridge", code=0, stdin=text, **variables).splitlines()
    answers = {message["id"]: message for message in map(json.loads, lines) if "id" in message}
    return [answers[number]["result"] for number in range(1, len(calls) + 1)]


@pytest.mark.parametrize("variable", ["WICKET_API_KEY", "MCPLOOKUP_API_KEY"])
def test_a_pipe_speaks_for_whose_key_it_was_given(folder: Path, variable: str) -> None:
    key = wicket(folder, "keys", "create", "ann", "-s", "discover").strip()
    state: dict[str, Any] = {"name": "get_onboarding_state", "arguments": {}}
    install: dict[str, Any] = {"name": "list_managed_servers", "arguments": {}}
    as_ann, refused = ask(folder, state, install, **{variable: key})
    assert as_ann["structuredContent"]["user_id"] == "ann"
    assert "scope 'admin'" in refused["content"][0]["text"]
    (as_owner,) = ask(folder, state)
    assert as_owner["structuredContent"]["user_id"] == "local"
    (with_a_foreign_key,) = ask(folder, state, MCPLOOKUP_API_KEY="somebody-elses-service")
    assert with_a_foreign_key["structuredContent"]["user_id"] == "local"


def test_a_wrong_key_lets_nobody_in(folder: Path) -> None:
    assert "Authentication failed" in wicket(folder, "serve", code=2, WICKET_API_KEY="wk_wrong")
