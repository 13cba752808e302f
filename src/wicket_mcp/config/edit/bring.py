"""Brings the servers of clients' files into `wicket.toml`, and lets go of those files again.

Puts together what `client_files`, `intake`, `edit` and `takeover` do one by one; the command line and the library
call this. A bad file changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from wicket_mcp.config.edit import files as edit
from wicket_mcp.config.edit import takeover
from wicket_mcp.config.edit.intake import Intake, read_any, read_client
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.read.client_files import Client, ClientFile, Folders, Section, project_file, user_files
from wicket_mcp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one server of a client's file."""

    name: str
    server: ServerConfig
    is_new: bool


@dataclass(frozen=True, slots=True)
class Brought:
    """What an import did, or would do."""

    path: Path
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    secrets: tuple[Path, ...]


def files_of(client: Client, where: Folders, *, project: bool = False) -> tuple[ClientFile, ...]:
    """The files of a client: the user's own, or the current project's. Raises ConfigError where it has none."""
    if not project:
        return user_files(client, where)
    file = project_file(client, where)
    if file is None:
        raise ConfigError(f"{client.title} keeps no servers in a project.", hint="Leave out --project.")
    return (file,)


def read_files(files: Sequence[ClientFile]) -> list[Intake]:
    """Those of the files that exist. Raises ConfigError when none does, naming where it looked."""
    found = [intake for file in files if (intake := read_client(file)) is not None]
    if not found:
        looked = ", ".join(dict.fromkeys(str(file.path) for file in files))
        raise ConfigError(
            f"{files[0].client.title} has no list of servers here (looked for {looked}).",
            hint="Name the file instead: wicket import FILE",
        )
    return found


def bring(intakes: Iterable[Intake], path: Path, *, dry_run: bool = False) -> Brought:
    """Merge what the files offer into the `wicket.toml` at `path`. Raises ConfigError, and then nothing changed."""
    text = edit.current(path)
    outcomes: list[Outcome] = []
    notes: list[str] = []
    secrets: dict[Path, str] = {}
    for intake in intakes:
        notes += intake.notes
        for offer in intake.offers:
            text, name, is_new = edit.merged(text, offer.server, path)
            if is_new:
                renamed = msgspec.structs.replace(offer.server, name=name)
                aside, files = edit.with_secrets_aside(renamed, path.parent)
                text = edit.added(edit.removed(text, name, path), aside, path) if files else text
                secrets |= files
            outcomes.append(Outcome(name, offer.server, is_new))
    if not dry_run and any(outcome.is_new for outcome in outcomes):
        edit.save_secrets(secrets)
        edit.save(path, text)
    return Brought(path, tuple(outcomes), tuple(notes), tuple(secrets))


def take_over(intakes: Iterable[Intake], new: Mapping[str, Any]) -> list[tuple[Path, Path]]:
    """Let each file name Wicket alone; the files, and the copies that were kept of them."""
    by_path: dict[Path, list[Intake]] = {}
    for intake in intakes:
        if intake.offers:
            by_path.setdefault(intake.path, []).append(intake)
    return [(path, takeover.take_over(same, new)) for path, same in by_path.items()]


def undo(files: Iterable[ClientFile]) -> list[Path]:
    """Give files back their own entries; those that had been taken over."""
    by_path: dict[Path, list[Section]] = {}
    for file in files:
        by_path.setdefault(file.path, []).append(file.section)
    return [path for path, sections in by_path.items() if takeover.undo(path, sections) is not None]


def undo_file(path: Path) -> list[Path]:
    """The same for any file: its section is found in the copy."""
    kept = takeover.backups(path)
    if not kept:
        return []
    section = read_any(kept[-1]).section
    return [path] if takeover.undo(path, [section] if section else []) is not None else []
