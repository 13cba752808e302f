"""Whose roots a server works on when clients share a daemon: those of clients with the same roots, and no others'."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.conftest import Machine, call
from tests.gateway.serving import Command

SERVER = """
import json, os, sys
roots = "not asked"
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": number, "result": {"protocolVersion": message["params"]["protocolVersion"],
              "capabilities": {"tools": {}}, "serverInfo": {"name": "asks", "version": "1"}}})
    elif method == "notifications/initialized":
        send({"id": "roots", "method": "roots/list"})
    elif number == "roots":
        roots = [root["uri"] for root in message["result"]["roots"]] if "result" in message else "refused"
    elif method == "tools/list":
        send({"id": number, "result": {"tools": [{"name": "roots", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        text = json.dumps([os.getpid(), roots])
        send({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no"}})
"""


class Editor:
    """A client that has folders open."""

    def __init__(self, command: Command, *folders: str) -> None:
        self._command = command
        self._folders = folders

    async def begin(self) -> None:
        hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "editor", "version": "1"}}
        await self._command.ask("initialize", {**hello, "capabilities": {"roots": {"listChanged": True}}})
        self._command.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self._say_roots()

    async def open(self, *folders: str) -> None:
        """Have other folders open from now on."""
        self._folders = folders
        self._command.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        await self._say_roots()

    async def _say_roots(self) -> None:
        question = await self._command.receive()
        assert question["method"] == "roots/list"
        listed = [{"uri": f"file:///{folder}"} for folder in self._folders]
        self._command.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": listed}})


async def roots_of(command: Command) -> list[Any]:
    """The process of the server and the roots that it works on, once it was told."""
    while (said := json.loads(await call(command, "a.roots")))[1] == "not asked":
        pass
    return said


@pytest.fixture
def asking(machine: Machine, tmp_path: Path) -> Machine:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    machine.configure({"a": {"command": sys.executable, "args": [str(file)]}})
    return machine


async def test_clients_share_a_server_where_their_roots_are_the_same(asking: Machine) -> None:
    found: dict[str, list[Any]] = {}
    plain = await asking.client()
    for name, folders in (("one", ["x", "y"]), ("same", ["y", "x"]), ("two", ["z"])):
        command = await asking.start()
        await Editor(command, *folders).begin()
        found[name] = await roots_of(command)
    found["plain"] = await roots_of(plain)
    assert found["one"][0] == found["same"][0]
    assert len({pid for pid, _ in found.values()}) == 3
    assert found["one"][1] == ["file:///x", "file:///y"]
    assert found["two"][1] == ["file:///z"]
    assert found["plain"][1] == "refused"


async def test_a_client_that_opens_another_folder_leaves_those_who_do_not(asking: Machine) -> None:
    commands = [await asking.start(), await asking.start()]
    editors = [Editor(command, "x") for command in commands]
    for editor in editors:
        await editor.begin()
    before = [await roots_of(command) for command in commands]
    assert before[0] == before[1]
    await editors[0].open("elsewhere")
    assert (await roots_of(commands[0]))[1] == ["file:///elsewhere"]
    assert await roots_of(commands[1]) == before[1]
