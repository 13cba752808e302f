"""Labelled queries over tools, in one shape wherever they come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode
from wicket_mcp.model import Listing, Tool

ROOT = Path(__file__).parents[2]
QUERIES = ROOT / "bench" / "queries"
OWN = ("catalog", "requests", "asks", "fresh")
"""The project's own sets over the real catalogues, each a file of QUERIES with a half to tune on and one to report on.
`catalog` is the oldest; `requests` has more kinds, and golds that name every tool that would do. `fresh` was written
when all else was finished, and nothing is tuned on it (two faults that it showed were mended)."""
CATALOG = ROOT / "tests" / "data" / "catalog"


@dataclass(frozen=True)
class Query:
    """What was asked, and the groups of tools that are needed: one of each group, named (server, tool)."""

    text: str
    groups: tuple[frozenset[tuple[str, str]], ...]
    kind: str = ""


@dataclass(frozen=True)
class Labelled:
    name: str
    split: str
    tools: list[dict[str, Any]]
    """As in tools.jsonl: server, name, description, input_schema, server_description."""
    queries: list[Query]

    def listings(self) -> list[Listing]:
        servers: dict[str, list[dict[str, Any]]] = {}
        for tool in self.tools:
            servers.setdefault(tool["server"], []).append(tool)
        return [
            Listing(
                server,
                instructions=tools[0].get("server_description") or "",
                tools=tuple(Tool(server, tool["name"], _definition(tool)) for tool in tools),
            )
            for server, tools in servers.items()
        ]


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": tool["description"] or "", "inputSchema": tool["input_schema"] or {}}
    return {"name": tool["name"], **described}


def names(data: Path) -> dict[str, str]:
    """Every set that there is, and whether it may be tuned on."""
    found = {p.name: split for split in ("dev", "report") for p in sorted((data / split).glob("*")) if p.is_dir()}
    ours = {f"{own}_{split}": split for own in OWN for split in ("dev", "report") if any(own_queries(own, split))}
    return found | ours


def read(data: Path, name: str, limit: int = 0) -> Labelled:
    """A set by its name; with a limit, that many of its queries over a few of its tools, to try things out."""
    split = names(data)[name]
    if (own := name.rpartition("_")[0]) in OWN:
        whole = Labelled(name, split, list(catalogue()), list(own_queries(own, split)))
    else:
        folder = data / split / name
        whole = Labelled(name, split, list(_lines(folder / "tools.jsonl")), list(_given(folder / "queries.jsonl")))
    return _part(whole, max(limit, _FEWEST)) if limit else whole


_FEWEST = 8  # fewer queries could not be timed


def _part(whole: Labelled, limit: int) -> Labelled:
    queries = whole.queries[:limit]
    needed = {tool for query in queries for group in query.groups for tool in group}
    tools = [tool for i, tool in enumerate(whole.tools) if i < 20 * limit or (tool["server"], tool["name"]) in needed]
    return Labelled(whole.name, whole.split, tools, queries)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        yield decode(line)


def _given(path: Path) -> Iterator[Query]:
    for row in _lines(path):
        groups = row.get("equiv") or [[tool] for tool in row["gold"]]
        yield Query(row["query"], tuple(frozenset((s, n) for s, n in group) for group in groups), row.get("kind", ""))


def own_queries(own: str = "catalog", split: str = "") -> Iterator[Query]:
    """One of the project's own sets over the real catalogues: all of it, or one half."""
    for row in _lines(QUERIES / f"{own}.jsonl"):
        if split in ("", row["split"]):
            groups = (frozenset((key.partition(".")[0], key.partition(".")[2]) for key in g) for g in row["gold"])
            yield Query(row["query"], tuple(groups), row["kind"])


def catalogue() -> Iterator[dict[str, Any]]:
    for path in sorted(CATALOG.glob("*.json")):
        listing = decode(path.read_bytes())
        about = listing["instructions"] or ""
        for tool in listing["tools"]:
            schema: Any = tool.get("inputSchema") or {}
            given: dict[str, Any] = {"description": tool.get("description") or "", "input_schema": schema}
            yield {"server": listing["server"], "name": tool["name"], "server_description": about, **given}
