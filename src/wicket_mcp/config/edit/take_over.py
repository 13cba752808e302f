"""Changes a client's file so that the client uses only Wicket, and changes it back.

Taking over replaces the imported entries by one that starts Wicket; entries that Wicket cannot run stay. First a copy
of the file is made beside it. Undoing puts the old entries back into the current file, so that its owner's other
changes stay; if nothing was changed, every byte is as before. Knows JSON and TOML only through `jsonc` and `toml`.
`import_plan` calls it.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from wicket_mcp.config.edit import jsonc, toml
from wicket_mcp.config.edit.client_entries import ClientEntries, read_text
from wicket_mcp.config.model.validation import value_at
from wicket_mcp.config.read import syntax
from wicket_mcp.config.read.client_files import Section
from wicket_mcp.errors import ConfigError
from wicket_mcp.files import replace_file

ENTRY = "wicket"
SUFFIX = ".before-wicket"
MOST_COPIES = 100


def entry(command: list[str], config: Path, extra: Mapping[str, Any], profile: str = "") -> dict[str, Any]:
    """The only entry that a client needs: starts Wicket with this configuration and profile."""
    program, *arguments = command
    chosen = ["--profile", profile] if profile else []
    return {**extra, "command": program, "args": [*arguments, "serve", "--config", str(config), *chosen]}


def take_over(files: Sequence[ClientEntries], new: Mapping[str, Any]) -> Path:
    """Rewrite one file, in each section that was read; returns the backup copy.

    Raises ConfigError, and then nothing changed.
    """
    path, text = files[0].path, files[0].text
    for file in files:
        text = _replace_entries(text, file, new)
    backup = _copy(path)
    replace_file(path, text)
    return backup


def undo(path: Path, sections: Iterable[Section]) -> Path | None:
    """Restore the entries of the last copy, remove the copy and return it. None if there is no copy.

    Raises ConfigError if the file no longer has any of the sections, and then nothing changed.
    """
    copies = backups(path)
    if not copies:
        return None
    old = read_text(copies[-1])
    text = old
    if path.exists():
        text = read_text(path)
        present = [section for section in sections if _entry_names(old, section) and _entry_names(text, section)]
        if not present:
            raise ConfigError(
                "has changed too much for its old servers to be put back.",
                file=str(path),
                hint=f"Undo it in the folder where it was done, or take them from {copies[-1]}.",
            )
        for section in present:
            is_toml = syntax.read(old).syntax == "toml"
            text = _restore_toml(text, old, section) if is_toml else _restore_json(text, old, section)
    replace_file(path, text)
    copies[-1].unlink()
    return copies[-1]


def is_changeable(file: ClientEntries) -> bool:
    """Whether we can change this kind of file."""
    return file.section is not None and file.syntax != "yaml"


def check_changeable(files: Iterable[ClientEntries]) -> None:
    """Raises ConfigError for a file with servers that we cannot change."""
    for file in files:
        if file.entries and not is_changeable(file):
            raise ConfigError(
                "lists its servers in a way that Wicket cannot change.",
                file=str(file.path),
                hint="Import them without --take-over, then replace them by hand: "
                "'wicket serve --http --print-clients' prints what to paste.",
            )


def _replace_entries(text: str, file: ClientEntries, new: Mapping[str, Any]) -> str:
    check_changeable([file])
    assert file.section is not None  # noqa: S101  (just checked)
    leaving = [item.key for item in file.entries]
    if file.syntax == "toml":
        return _replace_toml(text, file.section, leaving, new, file.path)
    changed = jsonc.set_member(text, file.section, ENTRY, new, remove=leaving)
    _check(text, changed, file.section, leaving, new, file.path)
    return changed


def _copy(path: Path) -> Path:
    """A copy beside the file, with the first number that is not used: an existing link would redirect the copy."""
    numbers = [number for number in range(1, MOST_COPIES) if os.path.lexists(_backup_path(path, number))]
    backup = _backup_path(path, max(numbers, default=0) + 1)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(backup, flags, 0o600), "wb") as copy:
        copy.write(path.read_bytes())
    shutil.copystat(path, backup, follow_symlinks=False)
    return backup


def backups(path: Path) -> list[Path]:
    """The copies of a file, oldest first."""
    candidates = [_backup_path(path, number) for number in range(1, MOST_COPIES)]
    return [backup for backup in candidates if backup.is_file() and not backup.is_symlink()]


def _backup_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{SUFFIX}{'' if number == 1 else f'-{number}'}")


def _replace_toml(text: str, section: Section, leaving: Collection[str], new: Mapping[str, Any], path: Path) -> str:
    try:
        for key in [key for key in _entry_names(text, section) if key in {*leaving, ENTRY}]:
            text = toml.remove_table(text, (*section, key))
        return toml.add_table(text, (*section, ENTRY), new)
    except toml.Uneditable as problem:
        raise ConfigError(
            "is written in a way that Wicket cannot change safely.",
            file=str(path),
            line=problem.line,
            key=str(problem),
            hint=f"Write its servers as [{section[0]}.NAME] tables.",
        ) from None


def _restore_toml(now: str, old: str, section: Section) -> str:
    old_entries: dict[str, Any] = value_at(syntax.read(old).tree, section)
    new_entries: dict[str, Any] = value_at(syntax.read(now).tree, section)
    if ENTRY in new_entries and _is_untouched(now, old, section, old_entries, new_entries):
        return old
    for key in [key for key in new_entries if key in old_entries or key == ENTRY]:
        now = toml.remove_table(now, (*section, key))
    restored = f"{now.rstrip()}\n\n{toml.extract_table(old, section)}"
    if value_at(syntax.read(restored).tree, section) == {**_others(new_entries, old_entries), **old_entries}:
        return restored
    # They were inline or under dotted keys: their content is restored, as tables.
    for key, values in old_entries.items():
        now = toml.add_table(now, (*section, key), values)
    return now


def _is_untouched(
    now: str, old: str, section: Section, old_entries: Mapping[str, Any], new_entries: Mapping[str, Any]
) -> bool:
    """Whether the file is unchanged since the take-over: repeating it on the old text gives the same."""
    leaving = [key for key in old_entries if key not in new_entries]
    try:
        return _replace_toml(old, section, leaving, new_entries[ENTRY], Path()) == now
    except ConfigError:
        return False


def _others(new_entries: Mapping[str, Any], old_entries: Mapping[str, Any]) -> dict[str, Any]:
    """What the owner has added since."""
    return {key: values for key, values in new_entries.items() if key not in old_entries and key != ENTRY}


def _restore_json(now: str, old: str, section: Section) -> str:
    new_section, old_section = jsonc.locate(now, section), jsonc.locate(old, section)
    if new_section is None or old_section is None:
        return now
    return jsonc.replace_value(now, new_section, old[old_section.start : old_section.end])


def _check(
    old: str, new: str, section: Section, leaving: Collection[str], value: Mapping[str, Any], path: Path
) -> None:
    """Check that the edit changed only what it should."""
    expected, actual = syntax.read(old).tree, syntax.read(new).tree
    table = value_at(expected, section)
    for key in leaving:
        table.pop(key, None)
    table[ENTRY] = {**value}
    if expected != actual:
        raise ConfigError(
            "could not be changed without touching other settings.", file=str(path), hint="Change it by hand."
        )


def _entry_names(text: str, section: Section) -> list[str]:
    table = value_at(syntax.read(text).tree, section)
    return list(cast("dict[str, Any]", table)) if isinstance(table, dict) else []
