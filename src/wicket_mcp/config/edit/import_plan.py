"""A complete import: which files, their content, the additions to `wicket.toml`, and the changes to the files.

Combines `client_files`, `client_entries`, `wicket_toml` and `take_over`, and edits no text itself. A bad file changes
nothing. The command line calls it.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.config.edit import take_over as taking_over
from wicket_mcp.config.edit import wicket_toml
from wicket_mcp.config.edit.client_entries import ClientEntries, read_any, read_client
from wicket_mcp.config.edit.losses import describe_losses, keep_environment
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.read.client_files import Client, ClientFile, Folders, Section, project_file, user_files
from wicket_mcp.config.read.secrets import named_variables
from wicket_mcp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for one server of a client's file."""

    name: str
    server: ServerConfig
    is_new: bool


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did, or would do."""

    path: Path
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    secrets: tuple[Path, ...]

    def variables(self) -> tuple[str, ...]:
        """The environment variables that the servers need of the process that starts them."""
        return tuple(dict.fromkeys(name for outcome in self.outcomes for name in named_variables(outcome.server)))


def files_of(client: Client, where: Folders, *, project: bool = False) -> tuple[ClientFile, ...]:
    """The files of a client: the user's own, or the current project's. Raises ConfigError if it has none."""
    if not project:
        return user_files(client, where)
    file = project_file(client, where)
    if file is None:
        raise ConfigError(f"{client.title} keeps no servers in a project.", hint="Leave out --project.")
    return (file,)


def read_files(files: Sequence[ClientFile]) -> list[ClientEntries]:
    """The files that exist. Raises ConfigError, naming the places, if none does."""
    existing = [entries for file in files if (entries := read_client(file)) is not None]
    if not existing:
        looked = ", ".join(dict.fromkeys(str(file.path) for file in files))
        raise ConfigError(
            f"{files[0].client.title} has no list of servers here (looked for {looked}).",
            hint="Name the file instead: wicket import FILE",
        )
    return existing


def import_servers(files: Iterable[ClientEntries], path: Path, *, dry_run: bool = False) -> Imported:
    """Merge the files' entries into the `wicket.toml` at `path`. Raises ConfigError, and then nothing changed."""
    text = wicket_toml.read_or_start(path)
    outcomes: list[Outcome] = []
    notes: list[str] = []
    secrets: dict[Path, str] = {}
    for file in files:
        notes += file.notes
        for entry in file.entries:
            server = keep_environment(entry.server, os.environ)
            text, name, is_new = wicket_toml.merge_server(text, server, path)
            if is_new:
                renamed = msgspec.structs.replace(server, name=name)
                notes += describe_losses(renamed, os.environ, path.parent)
                stripped, extracted = wicket_toml.extract_secrets(renamed, path.parent)
                if extracted:
                    text = wicket_toml.add_server(wicket_toml.remove_server(text, name, path), stripped, path)
                secrets |= extracted
            outcomes.append(Outcome(name, server, is_new))
    if not dry_run and any(outcome.is_new for outcome in outcomes):
        wicket_toml.write_secrets(secrets)
        wicket_toml.save(path, text)
    return Imported(path, tuple(outcomes), tuple(notes), tuple(secrets))


def write_profile(path: Path, profile: str, servers: Iterable[str]) -> None:
    """Add these servers to those that the profile shows. Raises ConfigError."""
    text = wicket_toml.read_or_start(path)
    wicket_toml.save(path, wicket_toml.set_profile(text, profile, servers, path))


def take_over(files: Iterable[ClientEntries], new: Mapping[str, Any]) -> list[tuple[Path, Path]]:
    """Let each file name only Wicket; returns the files and their backup copies."""
    by_path: dict[Path, list[ClientEntries]] = {}
    for file in files:
        if file.entries:
            by_path.setdefault(file.path, []).append(file)
    return [(path, taking_over.take_over(same, new)) for path, same in by_path.items()]


def undo(files: Iterable[ClientFile]) -> list[Path]:
    """Restore the original entries of files; returns those that had been taken over."""
    by_path: dict[Path, list[Section]] = {}
    for file in files:
        by_path.setdefault(file.path, []).append(file.section)
    return [path for path, sections in by_path.items() if taking_over.undo(path, sections) is not None]


def undo_file(path: Path) -> list[Path]:
    """The same for any file: its section is found in the copy."""
    copies = taking_over.backups(path)
    if not copies:
        return []
    section = read_any(copies[-1]).section
    return [path] if taking_over.undo(path, [section] if section else []) is not None else []
