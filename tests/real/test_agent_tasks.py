"""Fifteen tasks through Wicket with published servers and no model: all of them done, and no error on the way.

python -m tests.real.test_agent_tasks docs/benchmarks.md    writes the table
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.conftest import ROOT, Server, published, replay
from tests.gateway.serving import toml_of
from tests.peers.http_faults import HttpPeer, Received, send
from tests.real.agent import Agent, Spent, tokens
from tests.real.agent_tasks import PAGE, TASKS, World

DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- agent tasks -->\n", "<!-- end of agent tasks -->\n"
BESIDE = ("playwright", "notion", "kubernetes-go", "sqlite", "sequential-thinking")
"""Captured catalogues of servers that no task needs: there is something to choose wrongly from."""


class Site(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.path == "/robots.txt":
            send(writer, 404, "text/plain", b"")
        else:
            send(writer, 200, "text/html", PAGE.encode())


def servers(world: World) -> dict[str, Server]:
    folder = str(world.folder)
    return {
        "time": published("mcp-server-time"),
        "git": published("mcp-server-git"),
        "fetch": published("mcp-server-fetch", "--allow-private-ips"),
        "duckdb": published("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
        "filesystem": published("mcp-server-filesystem", folder),
        "memory": published("mcp-server-memory", env={"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"}),
        "everything": published("mcp-server-everything"),
        **{name: replay(name) for name in BESIDE},
    }


@asynccontextmanager
async def connected(world: World) -> AsyncGenerator[Client]:
    """A client of `wicket serve`, as an agent's program starts it, once every server has been seen."""
    config = world.folder.parent / "wicket.toml"
    config.write_text(toml_of(servers(world)))
    environment = {**os.environ, "XDG_STATE_HOME": str(world.folder.parent / "state"), "WICKET_LOG": "error"}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "wicket_mcp", "serve", "--config", str(config)], env=environment
    )
    async with Client(command, mode="legacy") as client:
        while "still starting" in str((await client.call_tool("find_tools", {"query": "time"})).content):
            continue
        yield client


async def carry_out(folder: Path) -> tuple[dict[str, Spent], int, list[str]]:
    """What each task took, the tokens that are in the prompt from the start, and what went wrong."""
    taken: dict[str, Spent] = {}
    wrong: list[str] = []
    async with Site() as site:
        world = World(folder, f"{site.origin}/hours")
        async with connected(world) as client:
            menu = [tool.model_dump(exclude_none=True) for tool in (await client.list_tools()).tools]
            prompt = tokens(json.dumps(menu, default=str)) + tokens(client.instructions or "")
            for name, task in TASKS.items():
                agent = Agent(client)
                try:
                    await task(agent, world)
                except (AssertionError, LookupError, ValueError) as problem:
                    wrong.append(f"{name}: {type(problem).__name__} {problem}\n" + "\n".join(agent.spent.said))
                if agent.spent.errors:
                    wrong.append(f"{name}: {agent.spent.errors} errors\n" + "\n".join(agent.spent.said))
                taken[name] = agent.spent
    return taken, prompt, wrong


def table(taken: dict[str, Spent], prompt: int) -> str:
    lines = ["| task | calls | errors | first hit | written | read |", "| :-- | --: | --: | --: | --: | --: |"]
    rows = {**taken, f"**{len(taken)} tasks**": _sum(taken)}
    lines += [
        f"| {name} | {s.calls} | {s.errors} | {s.first_hits} of {s.searches} | {s.written:,} | {s.read:,} |"
        for name, s in rows.items()
    ]
    return "\n".join([*lines, "", f"In the prompt from the start: {prompt:,} tokens.", ""])


def _sum(taken: dict[str, Spent]) -> Spent:
    total = Spent()
    for spent in taken.values():
        total.calls += spent.calls
        total.errors += spent.errors
        total.written += spent.written
        total.read += spent.read
        total.searches += spent.searches
        total.first_hits += spent.first_hits
    return total


@pytest.mark.node
@pytest.mark.timeout(300)
async def test_fifteen_tasks_are_done_without_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    taken, prompt, wrong = await carry_out(folder)
    with capsys.disabled():
        print(f"\n{table(taken, prompt)}")  # noqa: T201
    assert not wrong, "\n\n".join(wrong)
    assert len(taken) == 15
    written = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = re.finditer(r"\| ([^|*]+) \| (\d+) \| 0 \|", written)
    documented = {row[1]: int(row[2]) for row in rows}
    assert set(documented) == set(taken)
    assert _sum(taken).calls <= sum(documented.values()) + 5  # another ranking may cost a call here and save one there


def main(document: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "work"
        folder.mkdir()
        taken, prompt, wrong = asyncio.run(carry_out(folder))
    if wrong:
        raise SystemExit("\n\n".join(wrong))
    text = document.read_text()
    head, _, rest = text.partition(BEGIN)
    document.write_text(f"{head}{BEGIN}\n{table(taken, prompt)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
