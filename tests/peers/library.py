"""A server on the SDK, over its pipes, that has a resource and a prompt and no tools."""

from mcp.server import MCPServer

server = MCPServer("library")


@server.resource("book://one")
def one() -> str:
    return "Call me Ishmael."


@server.prompt()
def summary() -> str:
    return "Sum it up."


if __name__ == "__main__":
    server.run("stdio")
