"""The real catalogues as listings, and an index over them that all tests here share."""

from pathlib import Path

import pytest

from wicket_mcp.codec import decode
from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex

CATALOG = Path(__file__).parents[1] / "data" / "catalog"


def read(path: Path) -> Listing:
    said = decode(path.read_bytes())
    tools = tuple(Tool(said["server"], tool["name"], tool) for tool in said["tools"])
    return Listing(said["server"], instructions=said["instructions"] or "", tools=tools)


@pytest.fixture(scope="session")
def listings() -> list[Listing]:
    return [read(path) for path in sorted(CATALOG.glob("*.json"))]


@pytest.fixture(scope="session")
def index(listings: list[Listing]) -> SearchIndex:
    return SearchIndex.build(listings)
