"""Clients that share a daemon: one gateway, one process for each server, and nothing of one client reaches another."""

import asyncio
from pathlib import Path
from typing import Any

from tests.conftest import peer
from tests.daemon.conftest import Machine, call
from tests.daemon.test_faults import ASKABLE, slow
from tests.gateway.serving import META, Command
from tests.gateway.test_faults import gone


async def test_three_clients_have_one_gateway_and_one_process_for_each_server(machine: Machine) -> None:
    machine.configure({"a": peer("Echo"), "b": peer("Echo")})
    clients = [await machine.client() for _ in range(3)]
    for name in ("a", "b"):
        processes = {await call(client, f"{name}.pid") for client in clients}
        assert len(processes) == 1
    daemon = await machine.daemon()
    assert daemon["clients"] == 3
    assert daemon["servers"] == {"a": "ready", "b": "ready"}


async def test_clients_that_start_at_once_start_one_daemon(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    clients = await asyncio.gather(*(machine.client() for _ in range(6)))
    assert len({await call(client, "a.pid") for client in clients}) == 1
    assert (await machine.daemon())["clients"] == 6


async def test_progress_is_heard_by_the_client_whose_call_it_is(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    first, second = await machine.client(), await machine.client()
    params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "a.steps", "arguments": {}}}
    first.send(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {**params, "_meta": {"progressToken": "t"}}}
    )
    heard = [await first.receive() for _ in range(4)]
    assert [message.get("params", {}).get("progress") for message in heard] == [1, 2, 3, None]
    assert {message["params"]["progressToken"] for message in heard[:3]} == {"t"}
    second.send({"jsonrpc": "2.0", "id": 7, "method": "ping"})
    assert await second.receive() == {"jsonrpc": "2.0", "id": 7, "result": {}}  # and nothing came before it


async def test_a_question_reaches_the_client_whose_call_it_is(machine: Machine) -> None:
    machine.configure({"a": peer("TellsWhileItAsks")})
    first, second = await machine.start(), await machine.start()
    for client in (first, second):
        await client.ask("initialize", ASKABLE)
    for client, answer in ((first, "accept"), (second, "decline")):
        client.send(slow(9))
        question = await client.receive()
        assert question["method"] == "elicitation/create"
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": answer}})
        told = await client.receive()
        assert told["result"]["content"][0]["text"] == f"the client says {answer}"


async def test_every_client_hears_of_changed_lists(machine: Machine) -> None:
    machine.configure({"a": peer("GrowsATool")}, 'dialects = ["flat"]')
    clients = [await machine.client(), await machine.client()]
    for client in clients:
        assert (await client.ask("tools/list"))["result"]["tools"]
    clients[0].send(_called("a__release"))
    for client in clients:
        while (await client.receive()).get("method") != "notifications/tools/list_changed":
            pass


def _called(name: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": name, "arguments": {}}}


async def test_a_modern_client_and_dialects_of_its_own(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    legacy, modern = await machine.client(), await machine.start("--dialect", "flat")
    listed = (await modern.ask("tools/list", {"_meta": META}))["result"]["tools"]
    assert "a__echo" in {tool["name"] for tool in listed}
    assert "call_tool" in {tool["name"] for tool in (await legacy.ask("tools/list"))["result"]["tools"]}
    assert (await machine.daemon())["clients"] == 2


async def test_a_server_of_its_own_for_each_client_where_the_configuration_says_so(machine: Machine) -> None:
    machine.configure({"a": peer("Echo", isolation="session")})
    first, second = await machine.client(), await machine.client()
    mine, theirs = await call(first, "a.pid"), await call(second, "a.pid")
    assert mine != theirs
    await first.finish()
    await gone(int(mine))
    assert await call(second, "a.pid") == theirs


async def test_what_differs_in_environment_or_folder_never_mixes(machine: Machine, tmp_path: Path) -> None:
    server = peer("Echo", env={"TOKEN": "${A_TOKEN}"})
    machine.configure({"a": server})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clients = {
        "one": await machine.client(A_TOKEN="one", UNRELATED="1"),
        "same": await machine.client(A_TOKEN="one", UNRELATED="2"),
        "two": await machine.client(A_TOKEN="two"),
        "elsewhere": await machine.client(A_TOKEN="one", cwd=elsewhere),
    }
    pids = {name: await call(client, "a.pid") for name, client in clients.items()}
    assert pids["one"] == pids["same"]
    assert len(set(pids.values())) == 3
    for name, token in (("one", "one"), ("two", "two")):
        environment = Path(f"/proc/{pids[name]}/environ").read_bytes().split(b"\0")
        assert f"TOKEN={token}".encode() in environment
    assert Path(f"/proc/{pids['elsewhere']}/cwd").readlink() == elsewhere
    for about in await machine.daemons():
        assert b"UNRELATED" not in Path(f"/proc/{about['pid']}/environ").read_bytes()


async def test_a_variable_that_the_configuration_names_later_parts_the_clients(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    first, second = await machine.client(A_TOKEN="one"), await machine.client(A_TOKEN="two")
    assert await call(first, "a.pid") == await call(second, "a.pid")
    machine.configure({"a": peer("Echo", env={"TOKEN": "${A_TOKEN}"})})
    while len(await machine.daemons()) < 2:  # each has moved to the daemon of its own value
        await asyncio.gather(first.ask("ping"), second.ask("ping"))
    seen: set[str] = set()
    while len(seen) < 2:
        seen = {await _token(client) for client in (first, second)}
    assert seen == {"one", "two"}


async def _token(client: Command) -> str:
    pid = await call(client, "a.pid")
    if not pid.isdecimal():
        return ""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((each.removeprefix(b"TOKEN=").decode() for each in variables if each.startswith(b"TOKEN=")), "")


async def test_each_client_acts_for_its_own_api_key(machine: Machine) -> None:
    config = machine.configure({"a": peer("Echo")})
    _, key, _ = await machine.run("keys", "create", "guest", "--scope", "discover", "--config", str(config))
    owner, guest = await machine.client(), await machine.client(WICKET_API_KEY=key.split()[-1])
    assert await call(owner, "a.echo", message="hi") == "hi"
    assert "invoke" in await call(guest, "a.echo", message="hi")
    assert (await machine.daemon())["clients"] == 2


async def test_a_wrong_api_key_is_told_by_a_gateway_of_its_own(machine: Machine) -> None:
    machine.configure({"a": peer("Echo")})
    wrong = await machine.start(WICKET_API_KEY="wk_wrong")
    _, said = await wrong.process.communicate()
    assert b"API key is unknown" in said
    assert wrong.process.returncode == 2


async def test_ten_clients_of_twenty_servers_have_twenty_server_processes(machine: Machine) -> None:
    names = [f"s{number}" for number in range(20)]
    machine.configure({name: peer("Echo") for name in names})
    clients = [await machine.client() for _ in range(10)]

    async def use_all(client: Command) -> list[str]:
        return [await call(client, f"{name}.pid") for name in names]

    assert len({pid for pids in await asyncio.gather(*map(use_all, clients)) for pid in pids}) == 20
    daemon = await machine.daemon()
    assert daemon["clients"] == 10
    assert count_peers(daemon["pid"]) == 20
    assert sum(count_peers(client.process.pid) for client in clients) == 0


def count_peers(pid: int) -> int:
    """The servers among the processes that a process has started, and those have."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return (b"stdio_peer.py" in command) + sum(count_peers(int(child)) for child in children)
