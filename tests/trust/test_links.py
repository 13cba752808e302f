"""Links and icons in results: what would run or report where it is shown does not reach a client, all else does."""

import asyncio
from typing import Any

import pytest

from tests.conftest import OpenGateway
from tests.peers.http_faults import JSON, HttpPeer, Received, send

LINK = {"type": "resource_link", "name": "notes", "uri": "https://example.com/notes"}


class Links(HttpPeer):
    """A server whose tool answers with one block, which the test changes."""

    block: Any = LINK

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        results: dict[str, dict[str, Any]] = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "u"}},
            "tools/list": {"tools": [{"name": "show", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "before"}, self.block]},
        }
        if request.rpc_method in results:
            send(writer, 200, JSON, request.answered(results[request.rpc_method]))
        else:
            send(writer, 202 if "id" not in request.body else 404, "text/plain", b"")


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


SCRIPT = "javascript:alert(1)"
ICON = {"src": "https://example.com/icon.png"}


@pytest.mark.parametrize(
    ("block", "reaches"),
    [
        (LINK, LINK),
        ({**LINK, "uri": "file:///project/main.rs"}, {**LINK, "uri": "file:///project/main.rs"}),
        ({**LINK, "uri": "note://javascript:x"}, {**LINK, "uri": "note://javascript:x"}),
        ({**LINK, "uri": SCRIPT}, text("[notes: its address is a script.]")),
        ({**LINK, "uri": " java\tscript\n:alert(1)"}, text("[notes: its address is a script.]")),
        ({**LINK, "uri": "VBScript:x"}, text("[notes: its address is a script.]")),
        ({"type": "resource", "resource": {"uri": SCRIPT, "text": "kept"}}, text("kept")),
        (
            {"type": "resource", "resource": {"uri": SCRIPT, "blob": "AA=="}},
            text("[A resource: its address is a script.]"),
        ),
        ({"type": "resource", "resource": {"uri": "a://b", "text": "x"}},) * 2,
        ({**LINK, "icons": [ICON, {"src": "http://evil.example/seen"}, {"src": SCRIPT}]}, {**LINK, "icons": [ICON]}),
        (text(SCRIPT), text(SCRIPT)),
        ("no block", "no block"),
    ],
)
async def test_an_address_that_is_a_script_reaches_no_client(
    open_gateway: OpenGateway, block: Any, reaches: Any
) -> None:
    """W30."""
    async with Links() as remote, open_gateway({"u": {"url": remote.url}}) as gateway:
        remote.block = block
        assert (await gateway.call("u.show"))["content"] == [text("before"), reaches]
