"""Bytes from clients: stdio, HTTP, the guard, and the MCP methods of both eras."""
