"""Over HTTP a server that clients share works on nobody's roots, and it is said that it does not."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import ListRootsResult, Root
from pydantic import FileUrl

from tests.cli.shell import Done, Shell
from tests.conftest import OpenGateway, published, replay
from tests.daemon.test_roots import SERVER
from tests.gateway.serving import serve_http, toml_of
from wicket_mcp.store.model import AuditQuery


def editor(address: str, folder: Path) -> Client:
    """A client that has a folder open."""

    async def roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(folder.as_uri()))])

    return Client(address, mode="legacy", list_roots_callback=roots)


async def call(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    return str(getattr(result.content[0], "text", ""))


@pytest.mark.node
async def test_a_shared_server_keeps_to_its_own_folders_and_says_so_once(
    open_gateway: OpenGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, open_in_editor = tmp_path / "own", tmp_path / "editor"
    own.mkdir()
    open_in_editor.mkdir()
    servers = {"files": published("mcp-server-filesystem", str(own))}
    with caplog.at_level(logging.WARNING):
        async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
            async with editor(address, open_in_editor) as first, Client(address, mode="legacy") as second:
                for client in (first, second, first):
                    said = await call(client, "files.list_allowed_directories")
                    assert str(own) in said
                    assert str(open_in_editor) not in said
            acts = await gateway.store.find_calls(AuditQuery(tool="roots withheld"))
            assert [record.detail.partition(" ")[0] for record in acts] == ["files"]
    lines = [record.getMessage() for record in caplog.records if "does not get the folders" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith(
        "files is shared by clients, so it does not get the folders that a client has open; isolation ="
    )


@pytest.mark.node
@pytest.mark.timeout(60)
async def test_a_server_for_each_session_works_on_the_roots_of_its_client(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    (tmp_path / "editor").mkdir()
    servers = {"files": published("mcp-server-filesystem", str(tmp_path), isolation="session")}
    async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
        async with editor(address, tmp_path / "editor") as client:
            said = ""
            while str(tmp_path / "editor") not in said:  # it asks when it has started; calls do not wait
                said = await call(client, "files.list_allowed_directories")
        assert not await gateway.store.find_calls(AuditQuery(tool="roots withheld"))


async def test_a_shared_server_that_asks_all_the_same_is_told_nobodys(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    program = tmp_path / "asks.py"
    program.write_text(SERVER.replace('"method": "roots/list"})', '"method": "roots/list", "params": {}})'))
    asks = {"command": "python3", "args": [str(program)]}
    async with open_gateway({"asks": asks}) as gateway, serve_http(gateway, token=None) as address:
        async with editor(address, tmp_path) as client:
            assert json.loads(await call(client, "asks.roots"))[1] == "refused"


@pytest.mark.node
async def test_the_command_line_says_which_servers_get_the_folders_of_clients(
    open_gateway: OpenGateway, tmp_path: Path, state: Path
) -> None:
    alone = published("mcp-server-filesystem", str(tmp_path), isolation="session")
    servers = {"files": published("mcp-server-filesystem", str(tmp_path)), "notes": alone, "plain": replay("time")}
    async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
        async with editor(address, tmp_path) as client:
            await call(client, "files.list_allowed_directories")
    (tmp_path / "wicket.toml").write_text(f"state_dir = {json.dumps(str(state))}\n" + toml_of(servers))

    async def run(*arguments: str) -> Done:
        return await asyncio.to_thread(Shell.at(tmp_path).run, *arguments, "--config", str(tmp_path / "wicket.toml"))

    done = await run("doctor", "--json")
    fixes = [found["fix"] for found in done.json if "does not get the folders" in found["message"]]
    assert fixes == ['isolation = "session" starts one for each client, with its folders.']
    assert (await run("status", "--json")).json["roots"] == {"files": "withheld", "notes": "own"}
    said = (await run("status")).out
    assert "roots      withheld from files: clients share it" in said
    assert "roots      notes: each client has its own" in said
    listed = {server["name"]: server["roots"] for server in (await run("servers", "--json")).json}
    assert listed == {"files": "withheld", "notes": "own", "plain": ""}
    assert "Roots withheld from files: clients share it" in (await run("servers")).err
