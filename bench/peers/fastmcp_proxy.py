"""FastMCP's proxy, as its documentation has it.

    python fastmcp_proxy.py stdio|http PORT TARGET

TARGET is a URL, or a file with `mcpServers`. Runs in FastMCP's own environment, hence the late import.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    *front, target = sys.argv[1:]
    create_proxy: Any = import_module("fastmcp.server").create_proxy
    behind: Any = target
    if not target.startswith("http"):
        behind = json.loads(Path(target).read_text("utf-8"))
    proxy = create_proxy(behind, name="proxy")
    if front[0] == "http":
        proxy.run(transport="http", host="127.0.0.1", port=int(front[1]), show_banner=False, log_level="error")
    else:
        proxy.run(show_banner=False, log_level="error")


if __name__ == "__main__":
    main()
