"""A stdio server that says which key it was started with, and which process it is."""

import os
import sys
from typing import Any

from wicket_mcp.codec import decode, encode

TOOL = {"name": "whose", "description": "Says whose key it has.", "inputSchema": {"type": "object"}}

result: Any
for line in sys.stdin.buffer:
    message = decode(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "keys"}}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": f"{os.environ['KEY']} {os.getpid()}"}]}
        case _:
            result = None
    outcome: dict[str, Any] = (
        {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
    )
    sys.stdout.buffer.write(encode({"jsonrpc": "2.0", "id": message["id"], **outcome}) + b"\n")
    sys.stdout.buffer.flush()
