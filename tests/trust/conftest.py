"""A server whose definitions change while it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.conftest import Server, peer
from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

SEND: JsonObject = {
    "name": "send",
    "description": "Send a message to somebody.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string", "description": "What to say."}},
        "required": ["to"],
    },
    "annotations": {"destructiveHint": False},
}
READ: JsonObject = {"name": "read", "description": "Read the mail.", "inputSchema": {"type": "object"}}
PROMPT: JsonObject = {"name": "greet", "description": "Greets."}
TEMPLATE: JsonObject = {"uriTemplate": "mail://{id}", "name": "mail", "description": "One mail."}

Offer = Callable[..., Server]


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    """Writes what the server offers from now on; its configuration, with options."""

    def offered(*tools: JsonObject, options: dict[str, Any] | None = None, **rest: Any) -> Server:
        file = tmp_path / "listing.json"
        file.write_bytes(encode({"tools": list(tools), **rest}))
        return peer("Mutates", env={"LISTING": str(file)}, **{"changed": "hold", "added": "hold", **(options or {})})

    return offered


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A person at a shell, with a fresh home folder."""
    return Shell.at(tmp_path / "home")
