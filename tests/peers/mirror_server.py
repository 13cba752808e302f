"""A server that says what it is told to, with fields that nobody knows: `python mirror_server.py legacy|modern`.

Its one tool gets, as JSON text, what to add to its result, to the content and to the `_meta`; the text of its answer is
the `_meta` that came with the call.
"""

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]
TOOL: Message = {
    "name": "mirror",
    "inputSchema": {"type": "object", "properties": {"said": {"type": "string"}}},
    "com.example/of-tool": {"deep": [1, {"kept": None}]},
}


def MIRROR(era: str) -> Message:  # noqa: N802  (reads as the constant that it nearly is)
    """Its configuration."""
    return {"command": sys.executable, "args": [str(Path(__file__)), era]}


def answer(era: str, method: str, params: Message) -> Message | None:
    info = {"name": "mirror", "version": "1"}
    if method == "server/discover" and era == "modern":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "initialize" and era == "legacy":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        said = json.loads(params["arguments"]["said"])
        content = {"type": "text", "text": json.dumps(params.get("_meta", {})), **said["content"]}
        return {"content": [content], "_meta": said["meta"], **said["extras"]}
    return None


def main(era: str) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(era, message["method"], message.get("params", {}))
        outcome: Message = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        if result is not None and era == "modern":
            result.setdefault("resultType", "complete")
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
