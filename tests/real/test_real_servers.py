"""Published servers behind the gateway, over stdio and HTTP, with the SDK's own client in both eras."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters

from tests.conftest import ROOT, OpenGateway, Server, published
from tests.eras.cells import Steps
from tests.gateway.serving import META, Command, raw_client, serve_http, toml_of

Mode = Literal["legacy", "auto"]

PYTHON = {
    "time": published("mcp-server-time"),
    "git": published("mcp-server-git", "--repository", str(ROOT)),
    "duckdb": published("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
}


def node_servers(folder: Path) -> dict[str, Server]:
    return {
        "everything": published("mcp-server-everything"),
        "files": published("mcp-server-filesystem", str(folder)),
        "memory": published("mcp-server-memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
    }


@asynccontextmanager
async def connected(
    transport: str, mode: Mode, servers: dict[str, Server], folder: Path, open_gateway: OpenGateway
) -> AsyncGenerator[Client]:
    """An SDK client in front of a gateway over `servers`."""
    if transport == "http":
        async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
            async with Client(address, mode=mode) as client:
                yield client
        return
    config = folder / "wicket.toml"
    config.write_text(toml_of(servers))
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "WICKET_LOG": "error"}
    arguments = ["-m", "wicket_mcp", "serve", "--config", str(config)]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with Client(command, mode=mode) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    assert not result.is_error, result.content
    return result


async def find(client: Any, query: str) -> str:
    """What is found once every server has come up: the first search waits three seconds for them and names the rest."""
    while "still starting" in (found := text_of(await client.call_tool("find_tools", {"query": query}))):
        continue
    return found


def text_of(result: Any) -> str:
    return result.content[0].text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_python_servers(transport: str, mode: Mode, tmp_path: Path, open_gateway: OpenGateway) -> None:
    async with connected(transport, mode, PYTHON, tmp_path, open_gateway) as client:
        found = await find(client, "run a SQL query")
        assert found.startswith("duckdb.execute_query(sql: string")
        now = await call(client, "time.get_current_time", timezone="Asia/Tokyo")
        assert now.structured_content["timezone"] == "Asia/Tokyo"
        rows = await call(client, "duckdb.execute_query", sql="SELECT 123456 * 789 AS answer")
        assert "97406784" in text_of(rows)
        log = await call(client, "git.git_log", repo_path=str(ROOT), max_count=1)
        assert "Commit" in text_of(log)


@pytest.mark.node
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_node_servers(transport: str, mode: Mode, tmp_path: Path, open_gateway: OpenGateway) -> None:
    (tmp_path / "hello.txt").write_text("hello from a file")
    async with connected(transport, mode, node_servers(tmp_path), tmp_path, open_gateway) as client:
        assert text_of(await call(client, "everything.echo", message="hi")) == "Echo: hi"
        read = await call(client, "files.read_text_file", path=str(tmp_path / "hello.txt"))
        assert text_of(read) == "hello from a file"
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
        await call(client, "memory.create_entities", entities=[entity])
        graph = await call(client, "memory.search_nodes", query="Ada")
        assert graph.structured_content["entities"][0]["observations"] == ["wrote the first program"]
        image = await call(client, "everything.get-tiny-image")
        assert [block.type for block in image.content] == ["text", "image", "text"]
        steps = Steps(4)
        operation = {"name": "everything.trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 4}}
        await client.call_tool("call_tool", operation, progress_callback=steps)
        assert await steps.all() == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.node
async def test_the_published_http_server_is_reached_over_streamable_http_and_sse(
    open_gateway: OpenGateway, unused_tcp_port_factory: Any
) -> None:
    for kind, path in (("streamableHttp", "mcp"), ("sse", "sse")):
        port = unused_tcp_port_factory()
        everything = published("mcp-server-everything")["command"]
        process = await asyncio.create_subprocess_exec(
            everything,
            kind,
            env={**os.environ, "PORT": str(port)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        while str(port).encode() not in (line := await process.stdout.readline()):
            assert line, "the server ended"
        try:
            async with open_gateway({kind: {"url": f"http://127.0.0.1:{port}/{path}"}}) as gateway:
                result = await gateway.call(f"{kind}.echo", {"message": "remote"})
                assert result["content"][0]["text"] == "Echo: remote"
                assert len(await gateway.tools(kind)) >= 13
        finally:
            process.kill()
            await process.communicate()


async def test_wicket_behind_wicket(open_gateway: OpenGateway, tmp_path: Path) -> None:
    """A gateway is an MCP server like any other, on either transport."""
    async with (
        open_gateway({"time": PYTHON["time"]}) as inner,
        serve_http(inner, "flat", token="inner-token") as address,
    ):
        config = tmp_path / "outer"
        config.mkdir()
        server = {"url": address, "headers": {"Authorization": "Bearer inner-token"}}
        outer = await Command.start(config, {"inner": server})
        await outer.initialize()
        result = await outer.call(
            "call_tool", {"name": "inner.time__get_current_time", "arguments": {"timezone": "Europe/Paris"}}
        )
        assert result["structuredContent"]["timezone"] == "Europe/Paris"
        assert await outer.finish() == 0


@pytest.mark.node
async def test_every_step_of_a_published_server_is_on_the_wire_before_its_answer(open_gateway: OpenGateway) -> None:
    async with open_gateway({"e": published("mcp-server-everything")}) as gateway:
        async with serve_http(gateway) as address, raw_client(address) as client:
            operation = {"name": "e.trigger-long-running-operation", "arguments": {"duration": 0.1, "steps": 4}}
            params = {"name": "call_tool", "arguments": operation, "_meta": {**META, "progressToken": "t"}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_tool"}
            _, _, events = await client.post(message, routing)
    assert [event["params"]["progress"] for event in events[:-1]] == [1, 2, 3, 4]
    assert events[-1]["id"] == 1
