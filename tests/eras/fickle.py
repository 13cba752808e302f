"""A legacy server that changes its mind while it is read: it says that its tools changed, and then lists the old ones.

Speaks JSON lines on stdin and stdout, without the SDK, so that the order of its words is its own.
"""

import sys
from typing import Any

from wicket_mcp.codec import decode, encode


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(encode({"jsonrpc": "2.0", **message}).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    names = iter(("old", "new"))
    for line in sys.stdin:
        request: dict[str, Any] = decode(line)
        match request["method"]:
            case "initialize":
                info = {"name": "fickle", "version": "1"}
                capabilities = {"tools": {"listChanged": True}}
                result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            case "tools/list":
                name = next(names, "new")
                if name == "old":
                    say({"method": "notifications/tools/list_changed"})
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}
            case _ if "id" in request:
                say({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
                continue
            case _:
                continue
        say({"id": request["id"], "result": result})


if __name__ == "__main__":
    main()
