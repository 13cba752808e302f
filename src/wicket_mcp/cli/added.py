"""What is said after a server was added to wicket.toml: where it is, and what keeps it from being used.

Used by `wicket add`, with a command and from the registry.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.cli.output import note, say

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.config.model.server import ServerConfig


def tell_added(server: "ServerConfig", path: Path, saved: "Config", secrets: Iterable[Path]) -> None:
    from wicket_mcp.cli import checks

    name = server.name
    say(f"Added {name} to {path}")
    for file in secrets:
        note(f"A secret is kept in {file} (only you can read it), not in wicket.toml.")
    if hidden := [profile.name for profile in saved.profiles if not profile.shows_server(name)]:
        note(f"Not shown in: {', '.join(hidden)}. Name it under 'servers' of [profiles.{hidden[0]}] to show it there.")
    _warn_of_another_file(path)
    problems = [finding for finding in checks.server(server, saved) if finding.level == "problem"]
    for finding in problems:
        note(f"{name} cannot start yet: {finding.message}. {finding.fix}")
    if not problems:
        note(f"See what it offers: wicket tools {name}")


def _warn_of_another_file(path: Path) -> None:
    """Say so where another file is read first: a folder's own configuration comes before the user's."""
    from wicket_mcp.config.read.locate import find_config

    used = find_config()
    if used.resolve() != path.resolve():
        note(f"wicket: in this folder {used} is used instead; to use the other: --config {path}")
