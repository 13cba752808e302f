"""An upstream with more of everything than a page holds, in pages of its own: `python many_resources.py COUNT`."""

import json
import sys
from collections.abc import Callable
from typing import Any

COUNT, PAGE = int(sys.argv[1]), 400
Entry = Callable[[int], dict[str, Any]]
LISTS: dict[str, tuple[str, Entry]] = {
    "tools/list": ("tools", lambda n: {"name": f"tool{n}", "inputSchema": {"type": "object"}}),
    "resources/list": ("resources", lambda n: {"uri": f"item://{n}", "name": f"item {n}"}),
    "resources/templates/list": ("resourceTemplates", lambda n: {"uriTemplate": f"item{n}://{{x}}", "name": f"t{n}"}),
    "prompts/list": ("prompts", lambda n: {"name": f"prompt{n}"}),
    "skills/list": (
        "skills",
        lambda n: {"uri": f"skill://s{n}/SKILL.md", "frontmatter": {"name": f"s{n}"}, "resources": "dynamic"},
    ),
}
GREETING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {
        "tools": {},
        "resources": {},
        "prompts": {},
        "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}},
    },
    "serverInfo": {"name": "many", "version": "1"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return GREETING
    if method == "resources/directory/read":
        kind, entry = LISTS["resources/list"]
    elif method in LISTS:
        kind, entry = LISTS[method]
    else:
        return None
    begin = int(params.get("cursor", 0))
    end = min(begin + PAGE, COUNT)
    return {kind: [entry(n) for n in range(begin, end)], **({"nextCursor": str(end)} if end < COUNT else {})}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        outcome = {"result": result} if result else {"error": {"code": -32601, "message": "Method not found"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()
