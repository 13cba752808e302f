"""A stdio server that says which key it was started with, and which process it is.

With a folder as its argument, it writes every byte that it gets, and its environment, to a file of its own there.
"""

import os
import sys
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode, encode

TOOL = {"name": "whose", "description": "Says whose key it has.", "inputSchema": {"type": "object"}}

record = os.open(Path(sys.argv[1], str(os.getpid())), os.O_WRONLY | os.O_CREAT) if len(sys.argv) > 1 else -1
if record >= 0:
    os.write(record, repr(dict(os.environ)).encode() + b"\n")

result: Any
for line in sys.stdin.buffer:
    if record >= 0:
        os.write(record, line)
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
