"""An upstream with more resources than one page of ours holds: `python many_resources.py COUNT`."""

import json
import sys
from typing import Any

RESOURCES = [{"uri": f"item://{number}", "name": f"item {number}"} for number in range(int(sys.argv[1]))]

for line in sys.stdin.buffer:
    message = json.loads(line)
    answers: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"resources": {}},
            "serverInfo": {"name": "many", "version": "1"},
        },
        "tools/list": {"tools": []},
        "resources/list": {"resources": RESOURCES},
        "resources/templates/list": {"resourceTemplates": []},
    }
    if "id" in message:
        answer = answers.get(message["method"])
        outcome = {"result": answer} if answer else {"error": {"code": -32601, "message": "Method not found"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()
