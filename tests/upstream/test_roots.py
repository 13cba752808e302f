"""Whose roots a server works on: those of the one client that has it to itself, and nobody's where clients share it."""

import sys
from pathlib import Path

from tests.conftest import OpenGateway
from tests.gateway.serving import raw_client, serve_http

SERVER = """
import json, sys
offered = None
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        offered = message["params"]["capabilities"]
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "asks", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "offered", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(sorted(offered))}]}
    elif number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
"""


async def test_a_server_that_clients_share_is_offered_nobodys_roots(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    command = {"command": sys.executable, "args": [str(file)]}
    servers = {"shared": command, "own": {**command, "isolation": "session"}}
    async with open_gateway(servers) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        for name, offered in (("shared", False), ("own", True)):
            _, body = await client.modern("tools/call", {"name": "call_tool", "arguments": {"name": f"{name}.offered"}})
            assert ("roots" in body["result"]["content"][0]["text"]) is offered


async def test_a_gateway_with_one_client_offers_its_roots(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    async with open_gateway({"shared": {"command": sys.executable, "args": [str(file)]}}) as gateway:
        result = await gateway.call("shared.offered")
        assert "roots" in result["content"][0]["text"]
