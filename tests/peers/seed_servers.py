"""The servers that the published documents use in their examples, on the SDK: `python seed_servers.py NAME`."""

import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

READ_ONLY = ToolAnnotations(read_only_hint=True)


def calculator() -> MCPServer:
    server = MCPServer("calculator", description="A simple calculator server", version="1.0.0")

    @server.tool(description="Add two numbers together")
    def add(
        a: Annotated[float, Field(description="First number to add")],
        b: Annotated[float, Field(description="Second number to add")],
    ) -> int | float:
        return _whole(a + b)

    @server.tool(description="Multiply two numbers")
    def multiply(a: float, b: float) -> int | float:
        return _whole(a * b)

    @server.tool(description="Divide two numbers")
    def divide(a: float, b: float) -> int | float:
        if b == 0:
            raise ValueError("division by zero")
        return _whole(a / b)

    @server.tool(description="The square root of a number")
    def sqrt(a: float) -> int | float:
        return _whole(a**0.5)

    return server


def data_server() -> MCPServer:
    server = MCPServer("data", description="Provides data access tools")

    @server.tool(description="Read rows of a table.", annotations=READ_ONLY)
    def rows(table: str, limit: int = 10) -> list[dict[str, Any]]:
        return [{"id": number, "table": table} for number in range(limit)]

    return server


def quotes() -> MCPServer:
    server = MCPServer("quotes", version="0.3.0")

    @server.tool(name="TIME_SERIES_INTRADAY", description="Get intraday time series data")
    def intraday(symbol: str, interval: str) -> str:
        return f"{symbol} {interval}"

    @server.tool(
        name="GLOBAL_QUOTE",
        description="Returns the latest price and volume information for a ticker.",
        structured_output=False,
    )
    def quote(
        symbol: Annotated[str, Field(description="The symbol of the global ticker")],
        datatype: Annotated[str, Field(description="json or csv")] = "csv",
    ) -> dict[str, Any]:
        return {"Global Quote": {"01. symbol": symbol, "05. price": "261.05", "datatype": datatype}}

    @server.tool(name="TIME_SERIES_DAILY", description="Get daily time series data")
    def daily(symbol: str) -> str:
        return symbol

    return server


def qdrant() -> MCPServer:
    server = MCPServer("qdrant")

    @server.tool(title="Search", description="Find the points that are closest to a query")
    def search(collection: str, query: str, limit: int = 3) -> str:
        return f"{limit} points of {collection} near {query}"

    return server


def github() -> MCPServer:
    server = MCPServer("github")

    @server.tool(description="Create a new issue in a GitHub repository")
    def create_issue(repo: str, title: str, body: str = "") -> str:
        return f"{repo}#1: {title}"

    @server.tool(description="List repositories")
    def list_repos() -> list[str]:
        return ["owner/repo"]

    return server


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number


SERVERS = {
    "calculator": calculator,
    "data": data_server,
    "quotes": quotes,
    "qdrant": qdrant,
    "github": github,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]]().run()
