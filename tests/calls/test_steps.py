"""How long each step took, in the store and in an audit that goes to a file; and the arguments, if asked for."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.peers.counting_servers import CountingServer
from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import SCOPES, Principal, Silent
from wicket_mcp.request import tool_call
from wicket_mcp.store.audit_file import as_json
from wicket_mcp.store.model import AuditQuery

ANN = Principal("ann", SCOPES)


async def read(path: Path, gateway: Any) -> list[dict[str, Any]]:
    gateway.audit.flush()
    await gateway.audit_file.close()
    records = [decode(line) for line in path.read_bytes().splitlines()]
    return [record for record in records if record["method"] == "tools/call"]


async def test_the_audit_has_the_duration_of_each_step_in_their_order(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    echo = peer("Echo", cache={"echo": "5m"}, calls_per_minute=100)
    async with open_gateway({"echo": echo}, audit={"file": str(file)}) as gateway:
        for _ in range(2):
            await gateway.verbs.call(tool_call("echo.echo", {"message": "x"}, Silent(ANN), whole=True))
        await gateway.call("echo.echo", {"message": "y"})
        with pytest.raises(BadArguments):
            await gateway.call("echo.echo", {"message": 1, "more": []})
        records = await read(file, gateway)
        stored = await gateway.store.find_calls(AuditQuery(newest_first=False))
    assert [as_json(record)["steps_ms"] for record in stored] == [record["steps_ms"] for record in records]
    steps = [list(record["steps_ms"]) for record in records]
    inner = ["arguments", "cache", "limit of the server", "forward", "server"]
    assert steps == [
        ["audit", "authorise", "resolve", "limit", *inner],
        ["audit", "authorise", "resolve", "limit", "arguments", "cache"],
        ["audit", "resolve", *inner],
        ["audit", "resolve", "arguments"],
    ]
    for record in records:
        assert sum(record["steps_ms"].values()) == pytest.approx(record["duration_ms"], abs=0.1)
        assert "arguments" not in record
    assert records[0]["steps_ms"]["server"] > 0


async def test_what_stands_in_is_not_counted_twice(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(CountingServer())
        servers = {"first": {"url": upstream.url, "fallback": ["echo"]}, "echo": peer("Echo")}
        async with open_gateway(servers, audit={"file": str(file)}) as gateway:
            await gateway.call("first.echo", {"message": "x"})
            await stack.aclose()  # the first server is gone
            await gateway.call("first.echo", {"message": "x"})
            records = await read(file, gateway)
    assert [record["server"] for record in records] == ["first", "echo"]
    for record in records:
        assert "fallback" in record["steps_ms"]
        assert sum(record["steps_ms"].values()) == pytest.approx(record["duration_ms"], abs=0.1)


async def test_whole_arguments_are_in_the_file_when_asked_for_and_masked(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    options = {"file": str(file), "arguments": True}
    async with open_gateway({"echo": peer("Echo")}, audit=options) as gateway:
        with pytest.raises(BadArguments):
            await gateway.call("echo.echo", {"message": ["hello"], "apiToken": "hush-hush", "deep": {"password": "p"}})
        await gateway.call("echo.echo", {"message": "x" * 20_000})
        first, second = await read(file, gateway)
    assert first["arguments"] == {"message": ["hello"], "apiToken": "***", "deep": {"password": "***"}}
    assert "hush-hush" not in file.read_text()
    assert second["arguments"].endswith("bytes, too many for the audit")
