"""Memory that large answers needed goes back to the system."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from tests.conftest import peer
from tests.gateway.serving import META, Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of another process")
CLIENTS = 24
MIB = 1024 * 1024


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def ask_and_read_nothing(address: str) -> socket.socket:
    """A connection on which ten mebibytes have begun to arrive."""
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    params = {"name": "x__echo", "arguments": {"message": "large"}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"
        "Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
        f"Mcp-Name: x__echo\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    client.sendall(head.encode() + body)
    assert client.recv(64).startswith(b"HTTP/1.1 200")
    return client


async def test_the_memory_of_large_answers_that_nobody_read_goes_back_to_the_system(tmp_path: Path) -> None:
    """Defect 4."""
    server = peer("AnswersTooMuch", env={"MEBIBYTES": "10"})
    options = ("--http", "127.0.0.1:0", "--no-auth", "--dialect", "flat")
    gateway = await Command.start(tmp_path, {"x": server}, *options)
    assert gateway.process.stderr is not None
    while b"http://" not in (line := await gateway.process.stderr.readline()):
        assert line, "the gateway ended"
    address = line[line.index(b"http://") :].split()[0].decode()
    pid = gateway.process.pid
    ask_and_read_nothing(address).close()
    before = resident(pid)
    for _ in range(2):
        clients = [await asyncio.to_thread(ask_and_read_nothing, address) for _ in range(CLIENTS)]
        assert resident(pid) > before + CLIENTS * 4 * MIB
        for client in clients:
            client.close()
    async with asyncio.timeout(80):
        while resident(pid) > before + 60 * MIB:
            await asyncio.sleep(0)
    gateway.process.terminate()
    await gateway.process.communicate()
