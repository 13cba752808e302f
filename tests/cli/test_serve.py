"""`wicket serve` as a person starts it: what it prints is enough to connect a client."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.cli.shell import PATIENCE, Shell
from tests.conftest import peer
from wicket_mcp.codec import decode, encode


def _blocks(page: str) -> list[Any]:
    """The JSON objects of a page, in order: each from a line `{` to a line `}`."""
    return [decode(found) for found in re.findall(r"^\{$.*?^\}$", page, re.MULTILINE | re.DOTALL)]


def _status(url: str, headers: Mapping[str, str]) -> int:
    """What a client's greeting is answered with."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
    try:
        with urlopen(Request(url, body, sent), timeout=PATIENCE) as answer:  # noqa: S310  (our own address)
            return answer.status
    except HTTPError as refused:
        with refused:
            return refused.code


def test_what_it_prints_connects_a_client(shell: Shell) -> None:
    config = shell.cwd / ".mcp.json"
    config.write_bytes(encode({"mcpServers": {"echo": peer("Echo"), "Odd Name": peer("Echo")}}))
    command = [sys.executable, "-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0", "--print-clients"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=shell.cwd, env=shell.environ, text=True, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout
            page = ""
            while page.count("\n}\n") < 2:
                page += process.stdout.readline() or pytest.fail(f"it ended after {page!r}")
            stdio, http = _blocks(page)
            entry = http["mcpServers"]["wicket"]
            assert entry["url"] in page.splitlines()[0]
            assert stdio["mcpServers"]["wicket"]["args"] == ["serve", "--config", str(config)]
            assert _status(entry["url"], entry["headers"]) == 200
            assert _status(entry["url"], {}) == 401
        finally:
            process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "'Odd Name' is called 'Odd-Name' here" in log, "what was read differently is in the log"


def test_what_was_read_differently_is_in_the_status_too(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"Odd Name": peer("Echo")}}))
    assert "'Odd Name' is called 'Odd-Name' here" in shell.run("status").out
    assert shell.run("status", "--json").json["notes"]


def test_print_clients_without_http_is_a_mistake_that_says_why(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    done = shell.run("serve", "--print-clients")
    assert done.code == 2
    assert "--http" in done.err


def test_an_address_that_is_none_is_refused(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    assert shell.run("serve", "--http", "127.0.0.1:notaport").code == 2
    exposed = shell.run("serve", "--http", "0.0.0.0:0", "--no-auth")
    assert exposed.code == 2
    assert "everybody on the network your tools. Leave out --no-auth" in exposed.err
    assert "'nativ' is not built in. Known are " in shell.run("serve", "--dialect", "nativ").err


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("99999", "wicket: --http: 99999 is not a port: they go from 0 to 65535. For example 8377."),
        ("127.0.0.1:99999", "wicket: --http: 99999 is not a port: they go from 0 to 65535. For example 8377."),
        ("127.0.0.1:x", "wicket: --http: '127.0.0.1:x' is not HOST:PORT. For example 127.0.0.1:8377."),
        ("host.invalid", "wicket: --http: cannot listen on host.invalid:8377: "),
    ],
)
def test_a_wrong_address_is_blamed_on_the_option_that_gave_it(shell: Shell, address: str, says: str) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    done = shell.run("serve", "--http", address)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(says)


def test_the_address_may_be_left_out_or_a_port_and_one_that_is_taken_is_told_in_whole_sentences(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = shell.run("serve", "--http", str(port))
        (shell.cwd / "wicket.toml").write_text(f"[http]\nport = {port}\n")
        configured = shell.run("serve", "--http", ":")
        alone = [
            shell.run("serve", *rest) for rest in (["--http"], ["--http", "--no-auth"], ["--http", "-c", "wicket.toml"])
        ]
    problem = f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another"
    assert f"wicket: --http: {problem}" in done.err
    for refused in (configured, *alone):
        assert f"wicket: http.port: {problem}" in refused.err


def test_only_the_servers_that_are_enabled_are_counted(shell: Shell) -> None:
    servers = {"echo": peer("Echo"), "off": {**peer("Echo"), "disabled": True}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    command = [sys.executable, "-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=shell.cwd, env=shell.environ, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr
        line = next((line for line in process.stderr if "serving" in line), "")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert "serving 1 server at " in line
