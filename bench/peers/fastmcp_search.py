"""FastMCP's search transform over captured tools: `python fastmcp_search.py CATALOG_FOLDER QUERIES.json`.

Prints, as one JSON document, the menu that a client sees and the answer to each query, in the default form and in the
compact one. Runs in FastMCP's own environment, hence the late imports.
"""

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def captured(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every tool under a name of its own."""
    paths = sorted(folder.glob("*.json"))
    return [(f"{path.stem}_{tool['name']}", tool) for path in paths for tool in json.loads(path.read_text())["tools"]]


async def main(tools: list[tuple[str, dict[str, Any]]], queries: list[str]) -> None:
    fastmcp: Any = import_module("fastmcp")
    search: Any = import_module("fastmcp.server.transforms.search")
    compact: Any = import_module("fastmcp.server.transforms.search.base").serialize_tools_for_output_markdown
    make: Any = import_module("fastmcp.tools").Tool
    answers: dict[str, Any] = {}
    for form, options in (("json", {}), ("markdown", {"search_result_serializer": compact})):
        server = fastmcp.FastMCP("catalog", transforms=[search.BM25SearchTransform(**options)])
        for name, tool in tools:
            server.add_tool(make(name=name, description=tool.get("description"), parameters=tool["inputSchema"]))
        async with fastmcp.Client(server) as client:
            menu = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in await client.list_tools()]
            found: list[str] = []
            for query in queries:
                blocks = (await client.call_tool("search_tools", {"query": query})).content
                found.append("".join(block.text for block in blocks))
        answers[form] = {"menu": menu, "answers": found}
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(main(captured(Path(sys.argv[1])), json.loads(Path(sys.argv[2]).read_text("utf-8"))))
