"""The ways in which gateways serve over one state, each with the command line beside it: who decides, and who serves.

A site answers a call in each of its processes, on a new connection, or with a new client of the daemon's where the
rights of a client's own key matter.
"""

import json
import secrets
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.cli.shell import PATIENCE, Done, Shell
from tests.cluster.house import VAULT_KEY
from tests.conftest import Server
from tests.gateway.serving import ACCEPT, META, TOKEN, toml_of
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer

EVERYBODY = 12
"""Connections after which every worker has accepted some."""

Ask = Callable[[str, str, dict[str, Any], str], str]
"""A call in one process: with a key, of a tool, with arguments, in a profile; the answer's text."""


@dataclass
class Site:
    """One or several gateways over one state."""

    folder: Path
    shell: Shell
    processes: list[Ask] = field(default_factory=list[Ask])
    rounds: int = 1
    """How often each of `processes` must be asked until everybody was: several accept its connections."""
    by_notice: bool = False
    """Whether a decision reaches them by a notice of the database, which takes some milliseconds."""

    @property
    def config(self) -> Path:
        return self.folder / "wicket.toml"

    def wicket(self, *arguments: str, stdin: str = "", code: int | None = 0) -> Done:
        """A command, of the owner, beside the gateways."""
        done = self.shell.run(*arguments, "--config", str(self.config), stdin=stdin)
        assert code is None or done.code == code, done
        return done

    def approve(self, *arguments: str) -> None:
        """A person's yes at a terminal."""
        answers = [("Approve it?", "y\n")]
        done = self.shell.type("approve", *arguments, "--config", str(self.config), answers=answers)
        assert done.code == 0, done

    def ask(self, tool: str, *, key: str = TOKEN, profile: str = "", **arguments: Any) -> set[str]:
        """The answers of everybody."""
        everybody = self.processes * self.rounds
        return {ask(key, tool, arguments, profile) for ask in everybody}


@contextmanager
def http(postgres: Postgres, folder: Path, servers: dict[str, Server], options: str) -> Generator[Site]:
    with _site(folder, servers, options) as (site, start):
        start()
        yield site


@contextmanager
def workers(postgres: Postgres, folder: Path, servers: dict[str, Server], options: str) -> Generator[Site]:
    with _site(folder, servers, options) as (site, start):
        start("--workers", "2")
        site.rounds = EVERYBODY
        yield site


@contextmanager
def gateways(postgres: Postgres, folder: Path, servers: dict[str, Server], options: str) -> Generator[Site]:
    with _site(folder, servers, options) as (site, start):
        start()
        start()
        yield site


@contextmanager
def replicas(postgres: Postgres, folder: Path, servers: dict[str, Server], options: str) -> Generator[Site]:
    with RedisServer() as redis:
        shared = f'store = "{postgres.database()}"\nshared_limits = "{redis.address}"\n'
        with _site(folder, servers, shared + options) as (site, start):
            start()
            start()
            site.by_notice = True
            yield site


@contextmanager
def daemon(postgres: Postgres, folder: Path, servers: dict[str, Server], options: str) -> Generator[Site]:
    with _site(folder, servers, options) as (site, _), ExitStack() as clients:
        runtime = clients.enter_context(tempfile.TemporaryDirectory(prefix="wicket-"))  # a socket's path must be short
        known: dict[tuple[int, str, str], _Client] = {}

        def ask(number: int, key: str, tool: str, arguments: dict[str, Any], profile: str) -> str:
            if (number, key, profile) not in known:
                client = _Client(site, runtime, "" if key == TOKEN else key, profile)
                known[number, key, profile] = clients.enter_context(client.running())
            return known[number, key, profile].call(tool, arguments)

        site.processes += [partial(ask, 0), partial(ask, 1)]
        yield site
        environ = site.shell.environ | {"WICKET_RUNTIME_DIR": runtime}
        subprocess.run([sys.executable, "-m", "wicket_mcp", "daemon", "stop"], env=environ, check=False)


SITES = {"http": http, "daemon": daemon, "workers": workers, "gateways": gateways, "replicas": replicas}


@contextmanager
def _site(folder: Path, servers: dict[str, Server], options: str) -> Generator[tuple[Site, Callable[..., None]]]:
    site = Site(folder, Shell.at(folder / "home", WICKET_VAULT_KEY=VAULT_KEY, WICKET_TOKEN=TOKEN))
    site.config.write_text(f"{options}\n{toml_of(servers)}")
    with ExitStack() as running:

        def start(*arguments: str) -> None:
            address = running.enter_context(_serving(site, *arguments))
            site.processes.append(partial(_post, address))

        yield site, start


@contextmanager
def _serving(site: Site, *arguments: str) -> Generator[str]:
    """A gateway over HTTP; its address."""
    command = [sys.executable, "-m", "wicket_mcp", "serve", "--http", "127.0.0.1:0", "--config", str(site.config)]
    log = site.folder / f"log-{secrets.token_hex(4)}"
    with (
        log.open("wb") as sink,
        subprocess.Popen([*command, *arguments], env=site.shell.environ, stderr=sink) as process,
    ):
        try:
            while "wicket: serving" not in log.read_text():
                assert process.poll() is None, log.read_text()
            yield log.read_text().split("wicket: serving")[1].split(" at ")[1].split()[0]
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _post(address: str, key: str, tool: str, arguments: dict[str, Any], profile: str) -> str:
    params = {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        **ACCEPT,
        "Content-Type": "application/json",
        "Authorization": f"Bearer {key}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "call_tool",
    }
    path = f"{address}/p/{profile}" if profile else address
    request = urllib.request.Request(path, json.dumps(body).encode(), headers)  # noqa: S310  (our own address)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  (as above)
            text = answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return f"{refusal.code} {refusal.read().decode()}"
    return _text(json.loads(text.rpartition("data: ")[2] if text.startswith(("event:", "data:", ":")) else text))


def _text(answer: Any) -> str:
    """What an answer says to its reader."""
    if "error" in answer:
        return f"error: {answer['error']['message']}"
    return answer["result"]["content"][0]["text"]


class _Client:
    """A client over stdio, which shares the daemon."""

    def __init__(self, site: Site, runtime: str, key: str, profile: str) -> None:
        environ = {**site.shell.environ, "WICKET_RUNTIME_DIR": runtime}
        environ.pop("WICKET_NO_DAEMON", None)
        self._environ = environ | ({"WICKET_API_KEY": key} if key else {})
        named = ("--profile", profile) if profile else ()
        self._command = [sys.executable, "-m", "wicket_mcp", "serve", "--config", str(site.config), *named]

    @contextmanager
    def running(self) -> Generator["_Client"]:
        pipe = subprocess.PIPE
        with subprocess.Popen(self._command, env=self._environ, stdin=pipe, stdout=pipe, text=True) as self._process:
            try:
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                self._request("initialize", hello)
                self._send({"method": "notifications/initialized"})
                yield self
            finally:
                self._process.kill()

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        return _text(
            self._request("tools/call", {"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}})
        )

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._send({"id": method, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (answer := json.loads(line)).get("id") == method:
                return answer
        raise AssertionError("the client's connection has ended")
