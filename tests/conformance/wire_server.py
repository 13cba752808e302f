"""What the servers of the modern era share that speak the wire themselves, because the SDK lacks their extension.

python -m tests.conformance.X --stdio
python -m tests.conformance.X --http PORT      0 takes a free one; prints the address
"""

import argparse
import asyncio
import json
import socket
import sys
from typing import Any, ClassVar, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Message = dict[str, Any]
STATUS = {-32020: 400, -32021: 400, -32602: 400, -32601: 404}


class Problem(Exception):
    def __init__(self, code: int, message: str, data: Message | None = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message, **({"data": data} if data else {})}


class WireServer(Protocol):
    named: ClassVar[dict[str, str]]
    """By method: the parameter that the header Mcp-Name repeats."""

    async def answer(self, method: str, params: Message) -> Message:
        """The result. Raises Problem."""
        ...


def serve(server: WireServer) -> None:
    """Until the input ends, or somebody ends the process."""
    parser = argparse.ArgumentParser()
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true")
    way.add_argument("--http", type=int, metavar="PORT")
    options = parser.parse_args()
    asyncio.run(_serve_stdio(server) if options.stdio else _serve_http(server, options.http))


async def _respond(server: WireServer, message: Message) -> Message:
    try:
        result = {"resultType": "complete", **await server.answer(message["method"], message.get("params", {}))}
    except Problem as problem:
        return {"jsonrpc": "2.0", "id": message["id"], "error": problem.error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def _serve_stdio(server: WireServer) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()

    async def handle(message: Message) -> None:
        sys.stdout.write(json.dumps(await _respond(server, message)) + "\n")
        sys.stdout.flush()

    while line := await reader.readline():
        message = json.loads(line)
        if "id" in message:
            task = loop.create_task(handle(message))
            running.add(task)
            task.add_done_callback(running.discard)


async def _serve_http(server: WireServer, port: int) -> None:
    async def post(request: Request) -> Response:
        message = await request.json()
        if "id" not in message:
            return Response(status_code=202)
        key = server.named.get(message["method"])
        wrong = request.headers.get("mcp-method") != message["method"] or (
            key is not None and request.headers.get("mcp-name") != message.get("params", {}).get(key)
        )
        if wrong:
            answer: Message = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32020, "message": "headers"}}
        else:
            answer = await _respond(server, message)
        return JSONResponse(answer, STATUS.get(answer.get("error", {}).get("code"), 200))

    app = Starlette(routes=[Route("/mcp", post, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", port))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await uvicorn.Server(uvicorn.Config(app, http="h11", log_level="error", timeout_graceful_shutdown=1)).serve(
        [listener]
    )
