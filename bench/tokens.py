"""What discovery costs an agent in tokens (o200k), over 1,966 captured tools of 79 published servers.

    python bench/tokens.py [--no-rivals]

Counts menus, search answers, tool descriptions and whole flows, next to the flat list, FastMCP's search transform, and
the numbers that the original systems published. Checks the targets and exits 1 when one is missed.

A first call counts each text once: the menu, the instructions, the search with its answer, the call. A client sends the
menu and the instructions with every prompt, and a search takes one prompt more than a call of a tool that is known
already. So what is always in the prompt weighs more in a long conversation than here, and a search more than here; what
a client's prompt cache saves of it is not counted either. This is the same for all contenders.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import environments
from report import Verdict, number, save, table
from wicket_mcp.app import Gateway
from wicket_mcp.catalog.catalogue import fingerprint
from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.chain_words import brief
from wicket_mcp.dialects.factory import NAMES
from wicket_mcp.dialects.own_resources import read
from wicket_mcp.model import JsonObject, Listing, Silent, Tool
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.open import open_store

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "tests" / "data" / "catalog"
TOKENIZER: Any = import_module("rs_bpe").openai.o200k_base()
ME = Silent()
NOTHING = "never-started"
RIVALS_EVERY = 6
CHAIN_FLOW, NATIVE_FLOW = "chain: search, info, call", "native: find, call"
SIZES = (3, 5, 20, 100, 1966)
PUBLISHED = (
    ("seed 001: all 50 tools at once", "25,000"),
    ("seed 001: one schema on demand", "500"),
    ("seed 002 before: discovery flow (258 tools)", "20,000"),
    ("seed 002 after: discovery flow", "3,600"),
    ("seed 002 after: search_tools brief, 10 results", "600"),
    ("seed 002 after: tool_info brief", "200"),
    ("seed 002 goal: flow", "4,000"),
)


def tokens(value: Any) -> int:
    return TOKENIZER.count(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def shown(result: JsonObject) -> int:
    """Tokens of what a model reads of a result: its text."""
    return sum(tokens(block["text"]) for block in result["content"])


@dataclass
class Measured:
    """Everything that was counted."""

    flat: int = 0
    menus: dict[str, int] = field(default_factory=dict[str, int])
    per_hit: list[float] = field(default_factory=list[float])
    most_hit: int = 0
    infos: list[int] = field(default_factory=list[int])
    overview: int = 0
    native: int = 0
    flows: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    rivals: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    answered: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])
    """For each flow: whether a wanted tool was in the answer to each search."""


class Task(NamedTuple):
    """A task in plain words, and the tools that do it."""

    query: str
    wanted: frozenset[str]

    def is_answered(self, text: str, separator: str = ".") -> bool:
        return any(re.search(rf"\b{re.escape(name.replace('.', separator, 1))}\b", text) for name in self.wanted)


def tasks(count: int = 120) -> list[Task]:
    """Some of the queries that search is judged by: those for which there are tools."""
    lines = map(json.loads, (ROOT / "bench" / "queries" / "catalog.jsonl").read_text("utf-8").splitlines())
    known = [Task(line["query"], frozenset(name for names in line["gold"] for name in names)) for line in lines]
    known = [task for task in known if task.wanted]
    return known[:: max(1, len(known) // count)]


def captured_files(catalog: Path) -> list[Path]:
    return sorted(catalog.glob("*.json"))


async def stock(folder: Path, catalog: Path = CATALOG) -> JsonObject:
    """A configuration of all captured servers, whose listings lie in the state folder: nothing has to be started."""
    servers: JsonObject = {}
    store = await open_store(folder / "wicket.db")
    for path in captured_files(catalog):
        captured = json.loads(path.read_text("utf-8"))
        servers[path.stem] = {"command": NOTHING}
        tools = tuple(Tool(path.stem, tool["name"], tool) for tool in captured["tools"])
        listing = Listing(
            path.stem, captured["serverInfo"] or {}, "2025-11-25", captured["instructions"] or "", tools=tools
        )
        config = ServerConfig(name=path.stem, command=NOTHING)
        await store.save_listing(StoredListing(listing, fingerprint(config)))
    await store.close()
    return {"servers": servers, "state_dir": str(folder)}


async def measure(gateway: Gateway, chosen: Sequence[Task]) -> Measured:
    found = Measured()
    verbs = gateway.verbs
    for name in NAMES:
        protocol = gateway.protocol(name)
        menu = await protocol.menu.list(verbs)
        if name == "native":
            found.native = tokens(menu)
        if name == "flat":
            found.flat = tokens(menu)
        else:
            found.menus[name] = tokens(menu) + tokens(await gateway.instructions(name))
    chain, native = gateway.protocol("chain").menu, gateway.protocol("native").menu

    async def use(menu: Any, tool: str, **arguments: Any) -> JsonObject:
        return await menu.call(verbs, tool, ToolCall(arguments, ME))

    api = await verbs.scripting.api(verbs, ME.principal)
    for tool in await gateway.tools():
        found.most_hit = max(found.most_hit, tokens(encode(brief(tool, api)).decode()))
        found.infos.append(shown(await use(chain, "tool_info", tool_name=tool.key)))
    for task in chosen:
        query = task.query
        answer = await use(chain, "search_tools", task_description=query)
        hits = decode(answer["content"][0]["text"])
        found.answered.setdefault(CHAIN_FLOW, []).append(task.is_answered(answer["content"][0]["text"]))
        if not hits:
            continue
        found.per_hit.append(shown(answer) / len(hits))
        found.most_hit = max(found.most_hit, *(tokens(encode(hit).decode()) for hit in hits))
        best = hits[0]
        info = await use(chain, "tool_info", tool_name=best["name"])
        asked: list[JsonObject] = [
            {"task_description": query},
            {"tool_name": best["name"]},
            {"code": f"return {best['call']}"},
        ]
        flow = shown(answer) + shown(info) + sum(map(tokens, asked))
        found.flows.setdefault(CHAIN_FLOW, []).append(flow)
        lines = await use(native, "find_tools", query=query)
        found.answered.setdefault(NATIVE_FLOW, []).append(task.is_answered(lines["content"][0]["text"]))
        asked = [{"query": query}, {"name": best["name"], "arguments": {}}]
        found.flows.setdefault(NATIVE_FLOW, []).append(shown(lines) + sum(map(tokens, asked)))
    overview = await read(verbs, ME, "wicket://overview")
    assert overview is not None
    found.overview = tokens(overview["contents"][0]["text"])
    return found


def rivals(found: Measured, chosen: Sequence[Task], folder: Path) -> None:
    """FastMCP's search transform, on the same tools and some of the queries: it takes seconds for each."""
    chosen = chosen[::RIVALS_EVERY]
    queries = [task.query for task in chosen]
    file = folder / "queries.json"
    file.write_text(json.dumps(queries), "utf-8")
    python = environments.program("fastmcp", "python")
    script = str(Path(__file__).parent / "peers" / "fastmcp_search.py")
    done = subprocess.run([python, script, str(CATALOG), str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"FastMCP could not be measured: {done.stderr.strip().splitlines()[-1]}")
        return
    for form, one in json.loads(done.stdout).items():
        found.menus[f"FastMCP search ({form})"] = tokens(one["menu"])
        name = f"FastMCP search ({form}): search, call"
        found.rivals[name] = [
            tokens(answer) + 2 * tokens({"query": query}) for query, answer in zip(queries, one["answers"], strict=True)
        ]
        pairs = zip(chosen, one["answers"], strict=True)
        found.answered[name] = [task.is_answered(answer, "_") for task, answer in pairs]


def take(count: int, folder: Path) -> Path:
    """A catalogue of this many tools: whole servers, the smallest first, and of the last one as many as are missing."""
    folder.mkdir()
    captured = [(path.name, json.loads(path.read_text("utf-8"))) for path in CATALOG.glob("*.json")]
    for name, server in sorted(captured, key=lambda entry: (len(entry[1]["tools"]), entry[0])):
        server["tools"] = server["tools"][: max(count, 0)]
        count -= len(server["tools"])
        if server["tools"]:
            (folder / name).write_text(json.dumps(server), "utf-8")
    return folder


async def first_call(catalog: Path, folder: Path) -> tuple[int, int, JsonObject]:
    """Tokens until a first successful call: by the flat list, by Wicket, and what was asked for (to ask others too).

    A search that does not show the wanted tool leads to no call: then the whole run fails.
    """
    async with Gateway.open(await stock(folder, catalog)) as gateway:
        verbs = gateway.verbs
        tools = await gateway.tools()
        tool = tools[len(tools) // 2]
        query = (tool.description or tool.title or tool.name)[:80]
        call = tokens({"name": tool.key, "arguments": {}})
        flat = tokens(await gateway.protocol("flat").menu.list(verbs)) + call
        native = gateway.protocol("native").menu
        told = await gateway.instructions("native")
        wicket = tokens(await native.list(verbs)) + tokens(told) + call
        if f"{tool.key}(" not in told:
            answer = await native.call(verbs, "find_tools", ToolCall({"query": query}, ME))
            if f"{tool.key}(" not in answer["content"][0]["text"]:
                raise SystemExit(f"FAIL  {tool.key} is not in the answer to {query!r}")
            wicket += shown(answer) + tokens({"query": query})
        return flat, wicket, {"query": query, "call": call, "tool": tool.key}


async def first_calls(folder: Path) -> list[list[str]]:
    rows: list[list[str]] = []
    for count in SIZES:
        catalog = take(count, folder / f"catalog-{count}")
        state = folder / f"state-{count}"
        state.mkdir()
        flat, wicket, asked = await first_call(catalog, state)
        rows.append([f"{count:,}", f"{flat:,}", f"{wicket:,}", _rival_first_call(catalog, folder, asked)])
    return rows


def _rival_first_call(catalog: Path, folder: Path, asked: JsonObject) -> str:
    """FastMCP's search over the same tools: its menu, one search with its answer, one call."""
    if "--no-rivals" in sys.argv:
        return "-"
    file = folder / "query.json"
    file.write_text(json.dumps([asked["query"]]), "utf-8")
    script = str(Path(__file__).parent / "peers" / "fastmcp_search.py")
    python = environments.program("fastmcp", "python")
    done = subprocess.run([python, script, str(catalog), str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        return "not measured"
    forms = list(json.loads(done.stdout).values())
    least = min(tokens(one["menu"]) + tokens(one["answers"][0]) for one in forms)
    cost = f"{least + tokens({'query': asked['query']}) + asked['call']:,}"
    shown = Task(asked["query"], frozenset({asked["tool"]})).is_answered(forms[0]["answers"][0], "_")
    return cost if shown else f"{cost} (tool not shown)"


def verdicts(found: Measured) -> list[Verdict]:
    flows = found.flows[CHAIN_FLOW]
    return [
        Verdict("search_tools brief < 100 tokens a result", f"at most {found.most_hit}", found.most_hit < 100),
        Verdict(
            f"tool_info brief < 300 tokens for each of {len(found.infos):,} tools",
            f"at most {max(found.infos)}, median {statistics.median(found.infos):.0f}",
            max(found.infos) < 300 and len(found.infos) == 1966,
        ),
        Verdict("wicket://overview <= 500 tokens", str(found.overview), found.overview <= 500),
        Verdict("search, info and call < 1,500 tokens", f"at most {max(flows):,}", max(flows) < 1500),
        Verdict("native menu <= 600 tokens with its schemas", f"{found.native}", found.native <= 600),
        *compare_answers(found),
    ]


def compare_answers(found: Measured) -> list[Verdict]:
    """Whether Wicket's searches show a wanted tool more often than FastMCP's, where that was measured."""
    shares = {name: sum(answered) / len(answered) for name, answered in found.answered.items()}
    shown = ", ".join(f"{name.partition(':')[0]} {share:.0%}" for name, share in shares.items())
    rival = max((shares[name] for name in found.rivals), default=0.0)
    met = all(shares[name] > rival for name in found.flows)
    return [Verdict("a wanted tool is shown more often than by FastMCP's search", shown, met)]


def compare_to_flat(calls: Sequence[Sequence[str]]) -> Verdict:
    """Whether a first call through Wicket costs at most what it costs with all tools in the prompt, at every size."""
    pairs = [(row[0], *(int(cell.replace(",", "")) for cell in row[1:3])) for row in calls]
    shown = ", ".join(f"{size} tools: {wicket:,} of {flat:,}" for size, flat, wicket in pairs)
    return Verdict("a first call costs no more than by the flat list", shown, all(w <= f for _, f, w in pairs))


def compare_to_rival(calls: Sequence[Sequence[str]]) -> list[str]:
    """Where a first call through Wicket costs less than through FastMCP's search, and where it does not.

    Not a target: a small catalogue is shown whole so that later tasks need no search, which a first call only pays for.
    """
    cells = [(row[0], *(cell.replace(",", "") for cell in row[2:4])) for row in calls]
    pairs = [(size, int(wicket), int(rival.split()[0])) for size, wicket, rival in cells if rival[0].isdigit()]
    return [
        f"a first call at {size} tools costs {wicket:,} tokens, {'less' if wicket < rival else 'MORE'} than "
        f"by FastMCP's search ({rival:,})"
        for size, wicket, rival in pairs
    ]


def report(found: Measured) -> None:
    rows = [[f"flat list of {len(found.infos):,} tools", f"{found.flat:,}"]]
    rows += [[f"{name}: menu and instructions", f"{count:,}"] for name, count in found.menus.items()]
    print(table(("always in the prompt", "tokens"), rows), end="\n\n")
    every = found.flows | found.rivals
    lines = [
        [
            name,
            number(statistics.median(counts), 0),
            f"{sorted(counts)[len(counts) * 95 // 100]:,}",
            f"{max(counts):,}",
            f"{sum(found.answered[name])} of {len(found.answered[name])}",
        ]
        for name, counts in every.items()
    ]
    print(table(("one task, beside the menu", "median", "p95", "most", "tool shown"), lines), end="\n\n")
    print(table(("published by the original systems", "tokens"), [list(row) for row in PUBLISHED]), end="\n\n")
    print(f"search_tools brief: {statistics.mean(found.per_hit):.0f} tokens a result on average")


async def main() -> int:
    chosen = tasks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Gateway.open(await stock(folder)) as gateway:
            found = await measure(gateway, chosen)
        if "--no-rivals" not in sys.argv:
            rivals(found, chosen, folder)
        calls = await first_calls(folder)
    report(found)
    print(table(("tokens of a first call, by tools", "flat", "Wicket", "FastMCP search"), calls), end="\n\n")
    results = [*verdicts(found), compare_to_flat(calls)]
    for line in (*compare_to_rival(calls), *results):
        print(line)
    facts = {"flat": found.flat, "menus": found.menus, "overview": found.overview, "queries": len(chosen)}
    print(f"saved {save('tokens', facts, results)}")
    return 0 if all(verdict.met for verdict in results) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
