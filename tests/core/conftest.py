"""The catalogues of real servers, as their tools."""

from pathlib import Path
from typing import Any

import pytest

from wicket_mcp.codec import decode
from wicket_mcp.model import Tool

CATALOGUES = Path(__file__).parent.parent / "data" / "catalog"


@pytest.fixture(scope="session")
def real_tools() -> list[Tool]:
    tools: list[Tool] = []
    for path in sorted(CATALOGUES.glob("*.json")):
        catalogue: Any = decode(path.read_bytes())
        tools += [Tool(catalogue["server"], tool["name"], tool) for tool in catalogue["tools"]]
    assert len(tools) == 1966
    return tools
