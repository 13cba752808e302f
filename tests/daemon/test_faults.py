"""What happens to clients when their daemon dies, is stopped, is outdated or cannot be had."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.conftest import ROOT, peer
from tests.daemon.conftest import Machine, call
from tests.gateway.serving import META, Command
from tests.gateway.test_faults import gone

ASKABLE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}


def slow(number: int) -> dict[str, Any]:
    params = {"name": "call_tool", "arguments": {"name": "a.slow"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def begun(client: Command, count: int) -> None:
    """Wait until so many slow calls are at the server."""
    while True:
        result = await client.call("call_tool", {"name": "a.calls", "arguments": {}})
        if result["structuredContent"]["waiting"] == count:
            return


@contextlib.contextmanager
def no_other_daemon(machine: Machine, daemon: int, *clients: Command) -> Generator[None]:
    """The daemon is killed, and none can be started in its place. The clients' shims are left stopped."""
    for client in clients:
        client.process.send_signal(signal.SIGSTOP)
    os.kill(daemon, signal.SIGKILL)
    [path] = machine.runtime.glob("*.lock")
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # its own, until it has ended
        yield


async def test_calls_in_flight_end_with_a_typed_error_before_another_daemon_starts_and_the_next_one_works(
    machine: Machine,
) -> None:
    machine.configure({"a": peer("Echo")})
    first, second, watcher = [await machine.client() for _ in range(3)]
    server = int(await call(first, "a.pid"))
    for client in (first, second):
        for number in (100, 101, 102):
            client.send(slow(number))
    await begun(watcher, 6)
    daemon = await machine.daemon()
    with no_other_daemon(machine, daemon["pid"], first, second):
        for client in (first, second):
            client.send({"jsonrpc": "2.0", "id": 200, "method": "ping"})  # for the next daemon, which cannot start
            client.process.send_signal(signal.SIGCONT)
            ended = [await client.receive() for _ in range(3)]
            assert [message["id"] for message in ended] == [100, 101, 102]
            for message in ended:
                assert message["result"]["isError"]
                assert message["result"]["_meta"]["wicket/error"] == {"code": "crashed", "retryable": False}
    for client in (first, second):
        while (await client.receive()).get("id") != 200:  # after news of its lists
            pass
    await gone(server)
    for client in (first, second, watcher):
        assert await call(client, "a.echo", message="again") == "again"
    after = await machine.daemon()
    assert after["pid"] != daemon["pid"]
    assert after["clients"] == 3  # nobody waited for the lock so long that it made a gateway of its own


async def test_a_session_goes_on_with_its_log_level_and_capabilities_at_the_next_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("TellsWhileItAsks")})
    client = await machine.start()
    await client.ask("initialize", ASKABLE)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await client.ask("logging/setLevel", {"level": "error"})
    daemon = await machine.daemon()
    os.kill(daemon["pid"], signal.SIGKILL)
    while await machine.daemons():  # what is sent while it dies may have reached it
        pass
    client.send(slow(5))
    methods: list[str] = []
    while (message := await client.receive())["method"] != "elicitation/create":  # so it knows what it can ask
        methods.append(message["method"])
    assert not str(message["id"]).startswith("wicket-shim-")
    assert "notifications/prompts/list_changed" in methods
    client.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept"}})
    assert (await client.receive())["result"]["content"][0]["text"] == "the client says accept"


async def test_a_question_of_a_daemon_that_died_is_withdrawn_and_its_reply_reaches_nobody(machine: Machine) -> None:
    machine.configure({"a": peer("TellsWhileItAsks")})
    client = await machine.start()
    await client.ask("initialize", ASKABLE)
    client.send(slow(5))
    question = await client.receive()
    os.kill((await machine.daemon())["pid"], signal.SIGKILL)
    withdrawn, ended = await client.receive(), await client.receive()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    assert ended["id"] == 5
    assert ended["result"]["isError"]
    client.send(slow(6))
    while (message := await client.receive()).get("method") != "elicitation/create":
        pass
    assert message["id"] != question["id"]
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    client.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept"}})
    assert (await client.receive())["result"]["content"][0]["text"] == "the client says accept"


async def test_a_modern_subscription_survives_the_death_of_the_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("GrowsATool")}, 'dialects = ["flat"]')
    client = await machine.start()
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
    assert (await client.ask("tools/list", {"_meta": META}))["result"]["tools"]
    client.send({"jsonrpc": "2.0", "id": "watch", "method": "subscriptions/listen", "params": wanted})
    assert (await client.receive())["method"] == "notifications/subscriptions/acknowledged"
    os.kill((await machine.daemon())["pid"], signal.SIGKILL)
    assert (await client.receive())["method"] == "notifications/subscriptions/acknowledged"
    released = {"name": "a__release", "arguments": {}, "_meta": META}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": released})
    heard = [await client.receive(), await client.receive()]
    assert {message.get("method", message.get("id")) for message in heard} == {1, "notifications/tools/list_changed"}


async def test_another_version_is_installed_while_calls_are_in_flight_and_none_is_lost(
    machine: Machine, tmp_path: Path
) -> None:
    package = _install(machine, tmp_path / "site")
    machine.configure({"a": peer("Echo")})
    busy, idle = await machine.client(), await machine.client()
    busy.send(slow(50_000))
    await begun(idle, 1)
    old = await machine.daemon()
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace('__version__ = "', '__version__ = "9.'))
    versions: set[str] = set()
    answered = 0
    while versions != {f"9.{old['version']}"}:
        assert await call(idle, "a.echo", message=str(answered)) == str(answered)
        assert await call(busy, "a.echo", message=str(answered)) == str(answered)
        answered += 1
        daemons = await machine.daemons()
        versions = {about["version"] for about in daemons if about["clients"] == 2}
    os.kill(_children(old["pid"], "stdio_peer")[0], signal.SIGUSR1)  # the slow call answers
    while (message := await busy.receive()).get("id") != 50_000:
        pass
    assert message["result"] == {"content": [{"type": "text", "text": "released"}]}
    await gone(old["pid"])


def _install(machine: Machine, site: Path) -> Path:
    """A copy of the package that can be changed under the feet of those who run it."""
    shutil.copytree(ROOT / "src" / "wicket_mcp", site / "wicket_mcp", ignore=shutil.ignore_patterns("__pycache__"))
    wrapper = site / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    machine.python = str(wrapper)
    return site / "wicket_mcp"


def _children(pid: int, name: str) -> list[int]:
    listed = subprocess.run(
        ("ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)), capture_output=True, text=True, check=True
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if name in line]


async def test_stopping_the_daemon_lets_calls_end_and_the_next_message_starts_another(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client()
    before = await machine.daemon()
    code, out, _ = await machine.run("daemon", "stop")
    assert (code, out) == (0, f"stopped {before['pid']}\n")
    assert await machine.daemons() == []
    assert await call(client, "a.echo", message="on") == "on"
    assert (await machine.daemon())["pid"] != before["pid"]


async def test_a_daemon_that_nobody_uses_ends_by_itself(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client(WICKET_DAEMON_IDLE="0.1")
    server, daemon = int(await call(client, "a.pid")), await machine.daemon()
    assert await client.finish() == 0
    await gone(daemon["pid"])
    await gone(server)
    assert list(machine.runtime.glob("*.sock")) == []


async def test_a_first_line_that_is_not_ours_ends_its_connection_only(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client(WICKET_DAEMON_IDLE="0.1")
    daemon = await machine.daemon()
    [path] = machine.runtime.glob("*.sock")
    for line in (b"x\n", b"\n", b"wicket-shim\n", b"wicket-control\x1f1\n", b"\xff\x1f\xff\n"):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line)
        assert (await reader.read()).startswith(b"!refused "), line
        writer.close()
        assert await call(client, "a.echo", message="on") == "on"
    assert await client.finish() == 0
    await gone(daemon["pid"])  # none of them keeps it


async def test_calls_in_flight_are_answered_when_the_client_closes_its_end(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client, other = await machine.client(), await machine.client()
    client.send(slow(5))
    await begun(other, 1)
    assert client.process.stdin is not None
    client.process.stdin.close()
    await call(other, "a.release")
    assert (await client.receive())["result"]["content"][0]["text"] == "released"
    assert await client.process.wait() == 0


async def test_a_client_that_is_killed_takes_its_calls_with_it_and_nobody_else(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client, other = await machine.client(), await machine.client()
    client.send(slow(5))
    await begun(other, 1)
    client.process.kill()
    await begun(other, 0)
    assert (await machine.daemon())["clients"] == 1


async def test_a_configuration_that_cannot_be_used_is_told_as_without_a_daemon(machine: Machine) -> None:
    (machine.folder / "wicket.toml").write_text("dialects = 7\n")
    client = await machine.start()
    _, said = await client.process.communicate()
    assert client.process.returncode == 2
    assert b"dialects" in said
    assert await machine.daemons() == []


async def test_a_configuration_that_is_not_trusted_is_named_to_every_client(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            *(machine.python, "-m", "wicket_mcp", "serve"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=machine.environ,
            cwd=machine.folder,
        )
        client = Command(process)
        machine.clients.append(client)
        await client.initialize()
        assert process.stderr is not None
        while b"is not trusted. Ask the user to read it" not in await process.stderr.readline():
            pass


async def test_a_folder_that_is_not_ours_to_use_means_serving_without_a_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    shutil.rmtree(machine.runtime)
    machine.runtime.write_text("not a folder")
    client = await machine.client()
    assert await call(client, "a.echo", message="on my own") == "on my own"
    assert await client.finish() == 0
    machine.runtime.unlink()


async def test_a_socket_that_is_too_long_means_serving_without_a_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client(WICKET_RUNTIME_DIR=str(machine.folder / ("long" * 40)))
    assert await call(client, "a.echo", message="on my own") == "on my own"
    assert await client.finish() == 0


async def test_it_serves_without_a_daemon_where_it_is_told_to(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    for client in (await machine.client("--no-daemon"), await machine.client(WICKET_NO_DAEMON="1")):
        assert await call(client, "a.echo", message="alone") == "alone"
    assert await machine.daemons() == []


async def test_status_and_logs(machine: Machine) -> None:
    config = machine.configure({"a": peer("Echo")})
    code, _, err = await machine.run("daemon", "status")
    assert code == 0
    assert "No daemon runs" in err
    await call(await machine.client(), "a.pid")
    daemon = await machine.daemon()
    _, out, _ = await machine.run("daemon", "status")
    assert out.splitlines()[1].split()[:4] == [str(daemon["pid"]), "1", "0", "1"]
    assert str(config) in out
    _, out, _ = await machine.run("daemon", "logs")
    assert f"daemon {daemon['pid']} serves {config}" in out


async def test_a_verbose_client_reads_the_log_of_the_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client("--verbose")
    await call(client, "a.pid")
    assert client.process.stderr is not None
    while b"server 'a' is ready" not in await client.process.stderr.readline():
        pass


async def test_the_socket_is_for_its_user_alone(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    await machine.client()
    [socket] = machine.runtime.glob("*.sock")
    assert socket.stat().st_mode & 0o777 == 0o600
    assert machine.runtime.stat().st_mode & 0o777 == 0o700


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
try:
    sock.sendall("\\x1f".join(["wicket-control", "1", "status"]).encode() + b"\\n")
    said = sock.recv(100)
except (BrokenPipeError, ConnectionResetError):
    said = b""
print(said)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason=needs.OTHER_USERS)
async def test_another_user_is_refused_although_the_socket_can_be_opened(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    client = await machine.client()
    [path] = machine.runtime.glob("*.sock")
    machine.runtime.chmod(0o755)
    path.chmod(0o666)
    ask = (sys.executable, "-c", STRANGER, str(path))
    done = await asyncio.to_thread(subprocess.run, ask, capture_output=True, text=True, check=True)
    assert done.stdout == "b''\n"
    assert "the other end belongs to user 65534" in (await machine.run("daemon", "logs"))[1]
    assert await call(client, "a.echo", message="still here") == "still here"


IMPOSTOR = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listener.listen()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    said = connection.recv(100000)
    print(said, flush=True)
    connection.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason=needs.OTHER_USERS)
async def test_a_daemon_of_another_user_is_told_nothing_and_served_without(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    first = await machine.client()
    [path] = machine.runtime.glob("*.sock")
    daemon = await machine.daemon()
    first.process.kill()
    os.kill(daemon["pid"], signal.SIGKILL)
    await gone(daemon["pid"])
    path.unlink()
    machine.runtime.chmod(0o777)
    impostor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPOSTOR, str(path)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert impostor.stdout is not None
        assert await impostor.stdout.readline() == b"ready\n"
        client = await machine.client(WICKET_API_KEY="")
        assert await call(client, "a.echo", message="alone") == "alone"
        assert client.process.stderr is not None
        assert b"belongs to user 65534" in await client.process.stderr.readline()
    finally:
        impostor.kill()
        said, _ = await impostor.communicate()
    assert said in (b"", b"b''\n")
