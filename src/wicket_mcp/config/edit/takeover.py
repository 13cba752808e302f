"""A client's file changed so that the client talks to Wicket alone, and changed back.

Taking over replaces the entries that Wicket took in by one that starts Wicket; what Wicket cannot run stays.
A copy of the file is kept beside it first. Undoing puts the old entries back into the file as it is by then, so
that what its owner changed elsewhere in the meantime stays.
"""

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from wicket_mcp.config.edit import jsonc, tomltext
from wicket_mcp.config.edit.files import replace_file
from wicket_mcp.config.edit.intake import Intake, read_text
from wicket_mcp.config.read import syntax
from wicket_mcp.config.read.client_files import Section
from wicket_mcp.errors import ConfigError

ENTRY = "wicket"
SUFFIX = ".before-wicket"


def entry(command: list[str], config: Path, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The one entry that a client needs: starts Wicket with this configuration."""
    program, *arguments = command
    return {**extra, "command": program, "args": [*arguments, "serve", "--config", str(config)]}


def take_over(intakes: Sequence[Intake], new: Mapping[str, Any]) -> Path:
    """Rewrite one file, in each of the sections that were read of it; the copy of what it was.

    Raises ConfigError, and then nothing changed.
    """
    path, text = intakes[0].path, intakes[0].text
    for intake in intakes:
        text = _taken(text, intake, new)
    backup = _numbered(path, len(backups(path)) + 1)
    shutil.copy2(path, backup)
    replace_file(path, text)
    return backup


def undo(path: Path, sections: Iterable[Section]) -> Path | None:
    """Put the entries of the last copy back; that copy, which is removed. None when there is no copy.

    Raises ConfigError when the file has none of the sections any more, and then nothing changed.
    """
    kept = backups(path)
    if not kept:
        return None
    old = read_text(kept[-1])
    text = old
    if path.exists():
        text = read_text(path)
        present = [section for section in sections if _listed(old, section) and _listed(text, section)]
        if not present:
            raise ConfigError(
                "has changed too much for its old servers to be put back.",
                file=str(path),
                hint=f"Undo it in the folder where it was done, or take them from {kept[-1]}.",
            )
        for section in present:
            is_toml = syntax.read(old).syntax == "toml"
            text = _restored_toml(text, old, section) if is_toml else _restored_json(text, old, section)
    replace_file(path, text)
    kept[-1].unlink()
    return kept[-1]


def _taken(text: str, intake: Intake, new: Mapping[str, Any]) -> str:
    if intake.section is None or intake.syntax == "yaml":
        raise ConfigError(
            "lists its servers in a way that Wicket does not change.",
            file=str(intake.path),
            hint="Add Wicket to it by hand: 'wicket serve --http : --print-clients' prints what to paste.",
        )
    leaving = [offer.key for offer in intake.offers]
    if intake.syntax == "toml":
        return _taken_toml(text, intake.section, leaving, new, intake.path)
    changed = jsonc.exchanged(text, intake.section, leaving, ENTRY, new)
    _check(text, changed, intake.section, leaving, new, intake.path)
    return changed


def backups(path: Path) -> list[Path]:
    """The copies that were kept of a file, oldest first."""
    found = [_numbered(path, number) for number in range(1, 100)]
    return [backup for backup in found if backup.exists()]


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{SUFFIX}{'' if number == 1 else f'-{number}'}")


def _taken_toml(text: str, section: Section, leaving: Collection[str], new: Mapping[str, Any], path: Path) -> str:
    try:
        for key in {*leaving, ENTRY} & set(_listed(text, section)):
            text = tomltext.without_table(text, (*section, key))
        return tomltext.with_table(text, (*section, ENTRY), new)
    except tomltext.Uneditable as problem:
        raise ConfigError(
            "is written in a way that Wicket does not change.",
            file=str(path),
            line=problem.line,
            key=str(problem),
            hint=f"Write its servers as [{section[0]}.NAME] tables.",
        ) from None


def _restored_toml(now: str, old: str, section: Section) -> str:
    keys = _listed(old, section)
    bare_old, bare_now = old, now
    for key in keys:
        bare_old = tomltext.without_table(bare_old, (*section, key))
    for key in {*keys, ENTRY} & set(_listed(now, section)):
        bare_now = tomltext.without_table(bare_now, (*section, key))
    if bare_now.strip() == bare_old.strip():
        return old
    return f"{bare_now.rstrip()}\n\n{tomltext.table_text(old, section)}"


def _restored_json(now: str, old: str, section: Section) -> str:
    ours, theirs = jsonc.located(now, section), jsonc.located(old, section)
    if ours is None or theirs is None:
        return now
    return jsonc.spliced(now, ours, old[theirs.start : theirs.end])


def _check(
    old: str, new: str, section: Section, leaving: Collection[str], value: Mapping[str, Any], path: Path
) -> None:
    """The edit must have changed what it meant to and nothing else."""
    wanted, made = syntax.read(old).tree, syntax.read(new).tree
    table: Any = wanted
    for key in section:
        table = table[key]
    for key in leaving:
        table.pop(key, None)
    table[ENTRY] = {**value}
    if wanted != made:
        raise ConfigError(
            "could not be changed without touching other settings.", file=str(path), hint="Change it by hand."
        )


def _listed(text: str, section: Section) -> list[str]:
    table: Any = syntax.read(text).tree
    for key in section:
        table = cast("dict[str, Any]", table).get(key) if isinstance(table, dict) else None
    return list(cast("dict[str, Any]", table)) if isinstance(table, dict) else []
