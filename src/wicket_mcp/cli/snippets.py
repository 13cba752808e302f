"""Ready-to-paste configuration that connects a client to this Wicket."""

import shutil
import sys
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode, pretty
from wicket_mcp.model import as_object


def own_command() -> list[str]:
    """How a client can start this very Wicket: in full, because a desktop program has another PATH."""
    program = Path(sys.executable)
    if "archive-v0" in program.parts and (uvx := shutil.which("uvx")):
        # uvx runs from its cache, which it may empty at any time: let the client ask uvx, as this user did.
        return [uvx, "--from", _source(), "wicket"]
    beside = program.with_name("wicket.exe" if sys.platform == "win32" else "wicket")
    if beside.exists():
        return [str(beside)]
    path = shutil.which("wicket")
    return [path] if path else [sys.executable, "-m", "wicket_mcp"]


def _source() -> str:
    """Where this installation came from: a folder or an address, else the package of that name."""
    from importlib.metadata import distribution

    direct = distribution("wicket-mcp").read_text("direct_url.json")
    origin = as_object(decode(direct.encode())).get("url") if direct else None
    return str(origin).removeprefix("file://") if origin else "wicket-mcp"


def stdio_client(config: Path | None) -> dict[str, Any]:
    program, *arguments = own_command()
    where = ["--config", str(config.absolute())] if config else []
    return {"mcpServers": {"wicket": {"command": program, "args": [*arguments, "serve", *where]}}}


def http_client(address: str, token: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "http", "url": address}
    if token:
        entry["headers"] = {"Authorization": f"Bearer {token}"}
    return {"mcpServers": {"wicket": entry}}


def page(address: str, token: str | None, config: Path | None) -> str:
    """Everything a person needs to connect a client."""
    return "\n".join(
        (
            f"Address  {address}",
            f"Token    {token or 'none asked'}",
            "",
            "A client that starts its servers (stdio):",
            pretty(stdio_client(config)),
            "",
            "A client that connects over HTTP:",
            pretty(http_client(address, token)),
        )
    )
