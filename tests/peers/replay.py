"""An upstream that replays a captured `tools/list`: `python replay.py CATALOGUE.json`. A call echoes its arguments."""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    captured = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        params: dict[str, Any] = message.get("params", {})
        answers: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": captured["serverInfo"] or {"name": captured["server"], "version": "0"},
                "instructions": captured["instructions"] or "",
            },
            "tools/list": {"tools": captured["tools"]},
            "tools/call": {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]},
        }
        answer = answers.get(message["method"])
        outcome = {"result": answer} if answer else {"error": {"code": -32601, "message": "Method not found"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()


main()
