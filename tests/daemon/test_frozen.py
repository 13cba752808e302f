"""A daemon that does not run any more, but has not ended either: stopped, or on a machine that swaps."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import peer
from tests.daemon.conftest import Machine, call


def echo(number: int, message: str) -> dict[str, Any]:
    arguments = {"name": "a.echo", "arguments": {"message": message}}
    params = {"name": "call_tool", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.promise(
    "F36",
    "What waits for a stopped daemon ends with an error, old and new clients get gateways of their own, and nothing "
    "runs twice when it goes on.",
)
async def test_f36_a_daemon_that_is_stopped_holds_nobody_up_and_nothing_runs_twice_when_it_goes_on(
    machine: Machine, tmp_path: Path
) -> None:
    """Defect 10."""
    counted = tmp_path / "counted"
    machine.configure({"a": peer("Counts", env={"COUNTED": str(counted)})})
    client, leaving = await machine.client(), await machine.client()
    assert await call(client, "a.echo", message="before") == "before"
    daemon = await machine.daemon()
    os.kill(daemon["pid"], signal.SIGSTOP)
    client.send(echo(7, "in flight"))
    newcomer = await machine.start()
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    newcomer.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize})
    newcomer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    newcomer.send(echo(2, "newcomer"))
    assert await leaving.finish() == 0
    ended = await client.receive()
    assert ended["id"] == 7
    assert ended["result"]["isError"]
    assert ended["result"]["_meta"]["wicket/error"] == {"code": "crashed", "retryable": False}
    assert "does not answer any more" in ended["result"]["content"][0]["text"]
    while (message := await newcomer.receive()).get("id") != 2:
        pass
    assert message["result"]["content"][0]["text"] == "newcomer"
    assert await call(client, "a.echo", message="after") == "after"
    os.kill(daemon["pid"], signal.SIGCONT)
    late = await machine.client()
    assert await call(late, "a.echo", message="late") == "late"
    while (about := await machine.daemon())["clients"] > 1:
        pass
    assert about["pid"] == daemon["pid"]
    assert sorted(line for line in counted.read_text().split("\n") if line not in ("", "twice")) == [
        *("after", "before", "late", "newcomer")
    ]
