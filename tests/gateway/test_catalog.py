"""The catalogue: complete, bounded, kept on disk, renewed when it changes."""

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CATALOG, PEERS, OpenGateway, peer, published, replay
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.errors import ConfigError
from wicket_mcp.upstream.lifecycle import State


async def test_every_page_is_read(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("ManyPages")}) as gateway:
        assert [tool.name for tool in await gateway.tools("x")] == [f"tool_{n}" for n in range(7)]


@pytest.mark.promise("F16", "Endless pages are cut, and Wicket says so.")
async def test_f16_endless_pages_end_and_the_cut_is_said(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("EndlessPages")}) as gateway:
        assert len(await gateway.tools("x")) == 200
        assert "more than 200 pages" in gateway.catalogue.now.listings["x"].rejected[0].reason


@pytest.mark.promise("F16", "Tools beyond the limit are left out, and Wicket says so.")
async def test_f16_more_tools_than_the_limit_are_cut_and_the_cut_is_said(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("EndlessPages")}, limits={"max_tools": 5}) as gateway:
        assert len(await gateway.tools("x")) == 5
        assert "more than 5 entries" in gateway.catalogue.now.listings["x"].rejected[0].reason


async def test_a_bad_tool_costs_itself_and_the_reason_is_shown(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("OneBadTool")}) as gateway:
        assert [tool.name for tool in await gateway.tools("x")] == ["echo", "untyped"]
        reasons = {entry.name: entry.reason for entry in gateway.catalogue.now.listings["x"].rejected}
    assert reasons == {
        "no_schema": "left out: its inputSchema is missing, not an object",
        "wrong": "left out: its inputSchema does not describe an object",
        "None": "left out: it has no name",
        "echo": "left out: a second tool of this name; the first one counts",
    }


@pytest.mark.node
async def test_the_published_gitlab_server_keeps_all_its_tools(open_gateway: OpenGateway) -> None:
    gitlab = published("mcp-server-gitlab", env={"GITLAB_PERSONAL_ACCESS_TOKEN": "none"})
    async with open_gateway({"gitlab": gitlab}) as gateway:
        assert len(await gateway.tools("gitlab")) == 9


async def test_vendor_fields_of_a_tool_survive(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("Echo")}) as gateway:
        tool = await gateway.catalogue.lookup.resolve("x.echo")
    assert tool.definition["vendorField"] == {"kept": True}


async def test_a_new_process_knows_everything_without_starting_anything(open_gateway: OpenGateway) -> None:
    servers = {"git": replay("git"), "time": replay("time")}
    async with open_gateway(servers) as gateway:
        first = await gateway.tools()
    async with open_gateway(servers) as gateway:
        assert await gateway.tools() == first
        assert (await gateway.search("show the working tree status"))[0].tool.key == "git.git_status"
        assert (await gateway.verbs.describe(["git_log"], gateway.principal)).tools[0].key == "git.git_log"
        assert {gateway.pool.state(name) for name in servers} == {(State.IDLE, "")}


async def test_a_changed_command_makes_the_stored_listing_worthless(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": replay("git")}) as gateway:
        assert len(await gateway.tools()) == 12
    async with open_gateway({"x": replay("time")}) as gateway:
        assert [tool.name for tool in await gateway.tools()] == ["get_current_time", "convert_time"]


@pytest.mark.promise("F15", "After a thousand changes, the list is read once.")
async def test_f15_a_thousand_list_changed_become_one_renewal(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("GrowsATool")}) as gateway:
        await gateway.tools()
        grown: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def watch(old: Snapshot, new: Snapshot) -> None:
            if any(tool.name == "grown" for tool in new.tools) and not grown.done():
                grown.set_result(None)

        gateway.catalogue.watch(watch)
        await gateway.call("x.release")
        await grown
        assert (await gateway.call("x.calls"))["structuredContent"]["lists"] == 2


async def test_reconnecting_renews_the_listing(open_gateway: OpenGateway) -> None:
    async with open_gateway({"x": peer("DiesMidCall")}) as gateway:
        await gateway.tools()
        before = gateway.catalogue.now.version
        with pytest.raises(Exception, match="killed"):
            await gateway.call("x.slow")
        renewed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def watch(old: Snapshot, new: Snapshot) -> None:
            if not renewed.done():
                renewed.set_result(None)

        gateway.catalogue.watch(watch)
        await gateway.call("x.echo", {"message": "again"})
        await renewed
        assert gateway.catalogue.now.version > before


async def test_a_server_that_cannot_be_listed_is_named_and_asked_again(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    script = tmp_path / "appears_later.py"
    late = {"command": sys.executable, "args": [str(script), str(CATALOG / "time.json")]}
    async with open_gateway({"late": late, "git": replay("git")}) as gateway:
        assert {tool.server for tool in await gateway.tools()} == {"git"}
        assert "exited with code 2" in gateway.catalogue.failures["late"]
        script.write_text((PEERS / "replay.py").read_text())
        assert len(await gateway.tools("late")) == 2
        assert {tool.server for tool in await gateway.tools()} == {"git", "late"}
        assert gateway.catalogue.failures == {}


async def test_a_server_that_hangs_is_waited_for_once(open_gateway: OpenGateway) -> None:
    servers = {"hangs": peer("NeverAnswers", connect_timeout=0.3), "git": replay("git")}
    async with open_gateway(servers) as gateway:
        assert len(await gateway.tools()) == 12
        listing = [task for task in asyncio.all_tasks() if task.get_name() == "list hangs"]
        assert listing == []
        assert len(await gateway.tools()) == 12  # answers at once; asking again is left to the background
        assert "did not answer" in gateway.catalogue.failures["hangs"]


async def test_a_damaged_state_file_is_set_aside_not_overwritten(open_gateway: OpenGateway, state: Path) -> None:
    state.mkdir()
    (state / "wicket.db").write_bytes(b"this is no database, but somebody may want it back" * 100)
    async with open_gateway({"git": replay("git")}) as gateway:
        assert len(await gateway.tools()) == 12
    assert [path.read_bytes()[:10] for path in state.glob("*.damaged-*")] == [b"this is no"]


async def test_a_state_file_of_a_newer_wicket_is_refused(open_gateway: OpenGateway, state: Path) -> None:
    state.mkdir()
    db = sqlite3.connect(state / "wicket.db")
    db.execute("PRAGMA user_version = 999")
    db.close()
    with pytest.raises(ConfigError, match="newer Wicket.*Upgrade Wicket"):
        async with open_gateway({}):
            pass


@pytest.mark.promise("T17", "No secret reaches the state file.")
async def test_t17_no_secret_reaches_the_state_file(
    open_gateway: OpenGateway, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary-7f3a9c")
    async with open_gateway({"x": peer("Echo", env={"KEY": "${CANARY}"})}) as gateway:
        await gateway.call("x.echo", {"message": "argument-canary-1b2c"})
    stored = b"".join(path.read_bytes() for path in state.iterdir())
    assert b"canary-7f3a9c" not in stored
    assert b"argument-canary-1b2c" not in stored


@pytest.mark.promise("T29", "Every call leaves a record.")
async def test_t29_every_call_leaves_a_record(open_gateway: OpenGateway, state: Path) -> None:
    async with open_gateway({"x": peer("Echo", timeout=0.2)}) as gateway:
        await gateway.call("x.echo", {"message": "m"})
        await gateway.call("x.fails")
        for name in ("x.refuses", "x.slow"):
            with pytest.raises(Exception, match="not today|did not answer"):
                await gateway.call(name)
    db = sqlite3.connect(state / "wicket.db")
    rows: list[Any] = db.execute("SELECT tool, outcome FROM audit ORDER BY rowid").fetchall()
    usage = dict(db.execute("SELECT tool, calls FROM usage").fetchall())
    db.close()
    assert rows == [("echo", "ok"), ("fails", "error"), ("refuses", "upstream_error"), ("slow", "timed_out")]
    assert usage == {"x.echo": 1}
