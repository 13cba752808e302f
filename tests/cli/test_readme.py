"""The first ten minutes of the README, as somebody types them."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.pages import README, Step, blocks, shell_commands
from tests.cli.shell import PATIENCE, Shell
from tests.conftest import replay
from wicket_mcp import Gateway
from wicket_mcp.codec import decode, encode
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.native import NATIVE
from wicket_mcp.model import Silent


@pytest.fixture
def user(shell: Shell) -> Shell:
    """Somebody who has Cursor with two servers: one published, one replayed from its captured listing."""
    servers = {"time": {"command": "mcp-server-time"}, "github": replay("github")}
    shell.write(".cursor/mcp.json", encode({"mcpServers": servers}).decode())
    return shell


def test_each_command_works_as_it_stands(user: Shell) -> None:
    commands = [words for words in shell_commands(README) if "~/.cursor/mcp.json" in words]
    assert {words[0] for words in commands} >= {"servers", "search", "serve"}
    for words in commands:
        done = user.run(*(word.replace("~", str(user.home), 1) if word.startswith("~") else word for word in words))
        assert done.code == 0, (words, done.err)
        expected = {"servers": "time", "search": "github.create_issue"}.get(words[0], "")
        assert expected in done.out


async def test_the_paste_in_configuration_starts_a_gateway(user: Shell) -> None:
    user.run("import", "cursor")
    stdio = next(text for text in blocks(README, "json") if '"command"' in text)
    entry = decode(stdio.replace("/path/to/wicket.toml", str(user.config)))["mcpServers"]["wicket"]
    assert entry["command"] == "wicket"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "wicket_mcp",
        *entry["args"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=user.cwd,
        env=user.environ,
    )
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    said, _ = await asyncio.wait_for(
        process.communicate(b"\n".join((encode(greeting), encode(listing), b""))), PATIENCE
    )
    answers = {message["id"]: message for message in map(decode, said.splitlines()) if "id" in message}
    assert {tool["name"] for tool in answers[2]["result"]["tools"]} == _tools_of_the_readme()


async def test_what_an_agent_sees_is_what_the_readme_shows(user: Shell) -> None:
    transcript = next(text for text in blocks(README, "") if text.startswith("> find_tools"))
    config: dict[str, Any] = {"mcpServers": {"time": {"command": str(Path(sys.executable).parent / "mcp-server-time")}}}
    (user.cwd / "wicket.json").write_bytes(encode(config))
    async with Gateway.open({**config, "state_dir": str(user.home / "state")}) as gateway:
        for part in re.split(r"^> ", transcript, flags=re.MULTILINE)[1:]:
            asked, *lines = part.splitlines()
            name, _, arguments = asked.partition(" ")
            answer = await NATIVE.call(gateway.verbs, name, ToolCall(decode(arguments), Silent())) or {}
            said = "\n".join(block["text"] for block in answer["content"])
            promised = [re.sub(r'"datetime": "[^"]*"', '"datetime": "…"', line) for line in lines if line.strip()]
            assert Step([], promised).missing_from(said) is None, said


def _tools_of_the_readme() -> set[str]:
    section = README.read_text("utf-8").partition("## What an agent sees")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
