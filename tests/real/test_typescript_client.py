"""The TypeScript SDK's client in front of Wicket, in both eras, over HTTP and over pipes."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.conformance.suite import node
from tests.conftest import PEERS, ROOT, OpenGateway, Server, peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import TOKEN, serve_http, toml_of
from tests.gateway.test_tasks import LEGACY, MODERN

HOME = ROOT / ".node"
pytestmark = [
    pytest.mark.node,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not (HOME / "node_modules" / "@modelcontextprotocol" / "client").exists() or node() is None,
        reason=needs.NPM_SERVERS,
    ),
]
SERVERS: dict[str, Server] = {
    "x": peer("TellsWhileItAsks"),
    "s": {"command": sys.executable, "args": ["-m", "tests.conformance.skill_server", "--stdio"], "cwd": str(ROOT)},
}


async def speak(program: str, *arguments: str, **environment: str) -> Any:
    """What the client was told."""
    process = await asyncio.create_subprocess_exec(
        str(node()),
        str(PEERS / program),
        str(HOME),
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def check(told: Any) -> None:
    assert told["server"] == "wicket"
    assert told["tools"] == ["find_tools", "describe_tools", "call_tool", "run_script", "read_result"]
    assert "x.echo(" in told["found"]
    assert told["echo"] == "hello"
    assert (told["asked"], told["answer"]) == (["Go on?"], "the client says accept")
    assert "skill://s/pdf-forms/SKILL.md" in told["resources"]
    assert told["skills"] == ["skill://s/pdf-forms/SKILL.md", "skill://s/code-review/SKILL.md"]
    assert told["verified"] == [True] * 4
    assert told["children"] == ["SKILL.md", "references"]


@shows("skills", "list, read, verify by the TypeScript SDK's client", clients="both", servers="modern")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_it_is_served_over_http(open_gateway: OpenGateway, era: str) -> None:
    async with open_gateway(SERVERS) as gateway, serve_http(gateway) as address:
        check(await speak("typescript_client.mjs", era, address, TOKEN))


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_it_is_served_over_pipes(tmp_path: Path, era: str) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text(toml_of(SERVERS))
    command = (sys.executable, "-m", "wicket_mcp", "serve", "--config", str(config))
    check(await speak("typescript_client.mjs", era, *command, XDG_STATE_HOME=str(tmp_path / "state")))


@shows("tasks", "create, poll, result, plain calls by the TypeScript SDK's client", clients="legacy", servers="legacy")
async def test_a_tool_that_insists_on_tasks_is_called_plainly_and_as_a_task(tmp_path: Path) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text(toml_of({"x": {"command": str(HOME / "node_modules" / ".bin" / "mcp-server-everything")}}))
    command = (sys.executable, "-m", "wicket_mcp", "serve", "--config", str(config), "--dialect", "flat", "--no-daemon")
    state = str(tmp_path / "state")
    told = await speak("typescript_tasks.mjs", "x__simulate-research-query", *command, XDG_STATE_HOME=state)
    for result in (told["plain"], told["result"]):
        assert result["content"][0]["text"].startswith("# Research Report: tides")
    assert told["taskStatus"]["status"] == "completed"
    assert told["messages"][-1] == "Generating report..."


ENDS: dict[str, tuple[str, str]] = {
    "y__greet": ("completed", "Hello, None!"),
    "y__slow_compute": ("completed", "computed "),
    "y__protocol_error_job": ("failed", "the job broke"),
    "l__job": ("completed", "done"),
}
ASKS: dict[str, tuple[str, str]] = {
    "x__slow": ("completed", "the client says accept"),
    "y__confirm_delete": ("completed", "deleted: None"),
    "y__twice": ("completed", "asked twice"),
    "l__ask_job": ("completed", "the client says accept"),
}


@shows("tasks", "create, poll, input, result by the extension's published client", clients="both", servers="all")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_client_of_the_tasks_extension_understands_every_task(open_gateway: OpenGateway, era: str) -> None:
    servers: dict[str, Server] = {"x": peer("TellsWhileItAsks"), "y": MODERN, "l": LEGACY}
    expected = {**ENDS, "y__failing_job": ("completed" if era == "modern" else "failed", "it went wrong")}
    if era == "modern":  # in the legacy era this client does not fetch what a task asks
        expected |= ASKS
    async with open_gateway(servers) as gateway, serve_http(gateway, "flat") as address:
        await gateway.tools()
        gateway.local_tasks.promote_after = 0.0
        told = await speak("typescript_ext_tasks.mjs", era, address, TOKEN, *expected)
    assert told["told"] == {name: ["task", *ending] for name, ending in expected.items()}
    questions = ["Go on?", "Delete None?", "Sure?", "Sure?", "Go on?"]
    assert told["asked"] == (questions if era == "modern" else [])
