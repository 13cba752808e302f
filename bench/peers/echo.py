"""The cheapest MCP server that answers properly, in both eras: what stands behind every contender.

    python echo.py stdio [--tools N] [--log FILE]
    python echo.py http PORT [--tools N] [--log FILE]

Every tool gives its `message` back. With `--log`, each message that arrives appends its method to FILE as one line, so
that whoever measures can count what reached the upstreams. Several servers may share one file.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

Message = dict[str, Any]
INFO = {"name": "echo", "version": "1"}
MODERN = "io.modelcontextprotocol/protocolVersion"
SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Echo:
    """The answers, whatever carries them."""

    def __init__(self, tools: int, log: Path | None) -> None:
        names = ["echo", *(f"echo_{number}" for number in range(1, tools))]
        self.tools = [{"name": n, "description": "Echo the message back.", "inputSchema": SCHEMA} for n in names]
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log else None

    def count(self, method: str) -> None:
        if self._log is not None:
            os.write(self._log, f"{method}\n".encode())

    def take(self, message: Message) -> Message | None:
        """The response, or None where none is due."""
        self.count(message.get("method", "response"))
        if "id" not in message or "method" not in message:
            return None
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            error = {"code": -32601, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _result(self, method: str, params: Message) -> Message | None:
        modern = MODERN in (params.get("_meta") or {})
        if method == "tools/call":
            result = {"content": [{"type": "text", "text": params["arguments"]["message"]}], "isError": False}
            return result | {"resultType": "complete"} if modern else result
        if method == "tools/list":
            return self._cacheable({"tools": self.tools}) if modern else {"tools": self.tools}
        if method == "initialize":
            version = params.get("protocolVersion", "2025-11-25")
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
        if method == "server/discover" and modern:
            return self._cacheable({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        return {} if method == "ping" else None

    def _cacheable(self, result: Message) -> Message:
        meta = {"io.modelcontextprotocol/serverInfo": INFO}
        return result | {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public", "_meta": meta}


def serve_stdio(echo: Echo) -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        if (response := echo.take(decode(line))) is not None:
            out.write(encode(response) + b"\n")
            out.flush()


def serve_http(echo: Echo, port: int) -> None:
    import uvicorn  # noqa: PLC0415  (the cold start over stdio must not pay for it)

    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        status, body = 405, b""
        if scope["method"] == "POST":
            response = echo.take(decode(await read_body(receive)))
            status, body = (202, b"") if response is None else (200, encode(response))
        else:
            echo.count(scope["method"])
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning", timeout_keep_alive=600)


async def read_body(receive: Callable[[], Any]) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=("stdio", "http"))
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--tools", type=int, default=1)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    echo = Echo(options.tools, options.log)
    if options.transport == "http":
        serve_http(echo, options.port)
    else:
        serve_stdio(echo)


if __name__ == "__main__":
    main()
