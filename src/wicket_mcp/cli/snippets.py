"""Ready-to-paste configuration that connects a client to this Wicket."""

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wicket_mcp.codec import decode, pretty
from wicket_mcp.interpreter import PYTHON, module_command
from wicket_mcp.model import as_object, as_text

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "wicket-mcp"
_OF_EXTRA = re.compile(r"(?P<package>[\w.-]++)[^;]*+;.*extra == ['\"](?P<extra>[\w-]+)['\"].*")


def own_command() -> list[str]:
    """How a client can start this very Wicket: in full, because a desktop program has another PATH."""
    program = Path(PYTHON)
    if "archive-v0" in program.parts and (uvx := shutil.which("uvx")):
        # uvx runs from its cache, which it may empty at any time: let the client ask uvx, as this user did.
        return [uvx, "--from", _source(), "wicket"]
    beside = program.with_name("wicket.exe" if sys.platform == "win32" else "wicket")
    if beside.exists():
        return [str(beside)]
    path = shutil.which("wicket")
    return [path] if path else list(module_command("wicket_mcp"))


def _source() -> str:
    """Where this installation came from, with the extras that it has."""
    from importlib.metadata import distribution

    return source_of(distribution(PACKAGE))


def source_of(installed: "Distribution") -> str:
    """What to install to get the same: a folder, a file or an address (PEP 610), else the package of that name."""
    direct = installed.read_text("direct_url.json")
    origin = as_object(decode(direct.encode())) if direct else {}
    address = as_text(origin.get("url"))
    extras = _extras(installed)
    chosen = f"[{','.join(extras)}]" if extras else ""
    if not address:
        return f"{PACKAGE}{chosen}"
    control = as_object(origin.get("vcs_info"))
    if not control and address.startswith("file://"):
        return f"{url2pathname(urlsplit(address).path)}{chosen}"
    if control:
        revision = as_text(control.get("requested_revision"))
        address = f"{control.get('vcs')}+{address}{f'@{revision}' if revision else ''}"
    folder = as_text(origin.get("subdirectory"))
    address = f"{address}#subdirectory={folder}" if folder else address
    return f"{PACKAGE}{chosen} @ {address}" if chosen else address


def _extras(installed: "Distribution") -> list[str]:
    """The extras whose requirements are all there."""
    needed: dict[str, list[str]] = {}
    for requirement in installed.requires or ():
        match = _OF_EXTRA.fullmatch(requirement)
        if match and match["package"] != PACKAGE:
            needed.setdefault(match["extra"], []).append(match["package"])
    return [extra for extra, packages in needed.items() if all(map(_is_installed, packages))]


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


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
