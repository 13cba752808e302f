"""`wicket trust`, the same question on a terminal, and the user's own edits, which need no question.

A configuration that lies in a folder starts nothing until its owner said yes to it (`config/read/folder_trust.py`).
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.outline import outline
from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config


def trust(
    path: Annotated[
        Path | None, typer.Argument(help="The file, or its folder. [default: this folder]", show_default=False)
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Withdraw the trust.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Trust the configuration of a folder.

    Until then Wicket starts nothing that it names. When the file changes, Wicket asks again.

    Example: wicket trust .
    """
    from wicket_mcp.config.read import folder_trust

    file = _file(path)
    if forget:
        forgotten = folder_trust.forget(file)
        words = f"{file} is not trusted any more." if forgotten else f"{file} was not trusted."
    else:
        words = f"Trusted {file}: {_outline(_accept(file))}"
    if json:
        say_json({"config": str(file), "trusted": not forget})
    else:
        say(words)


def ask(file: Path) -> bool:
    """Ask on a terminal whether a configuration may be used; False where nobody says yes, or can."""
    from wicket_mcp.config.read import folder_trust

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    seen = folder_trust.digest(file)
    config = _read(file)
    changed = " has changed since you trusted it and" if folder_trust.was_trusted(file) else ""
    note(f"{file}{changed} would start and set:\n{outline(config)}")
    if not typer.confirm("Do you trust it?", default=False, err=True):
        return False
    folder_trust.trust(file, seen)  # what was shown, whatever the file has become since
    return True


@contextmanager
def keep_trust(path: Path) -> Generator[None]:
    """What the user's own command writes needs no question, unless the file was there before and had no yes."""
    from wicket_mcp.config.read import folder_trust, locate

    before = folder_trust.digest(path) if path.is_file() else ""
    yield
    if path.parent == locate.config_folder() or not path.is_file():
        return
    if not before or folder_trust.is_trusted(path, before):
        folder_trust.trust(path, folder_trust.digest(path))


def _accept(file: Path) -> "Config":
    """Remember the yes to the very bytes that were read and checked."""
    from wicket_mcp.config.read import folder_trust

    seen = folder_trust.digest(file)
    config = _read(file)
    folder_trust.trust(file, seen)
    return config


def _read(file: Path) -> "Config":
    from wicket_mcp.config.read.formats import load

    return load(file)


def _file(path: Path | None) -> Path:
    from wicket_mcp.config.read import locate

    chosen = Path.cwd() / (path or "")
    if chosen.is_dir():
        names = (locate.CONFIG_NAME, ".mcp.json")
        file = next((chosen / name for name in names if (chosen / name).is_file()), None)
        if file is None:
            raise ConfigError(f"has no {' or '.join(names)}.", file=str(chosen), hint="Name the file.")
        return file
    return chosen


def _outline(config: "Config") -> str:
    names = [server.name for server in config.servers]
    listed = f" ({', '.join(names)})" if names else ""
    return f"{len(names)} server{'' if len(names) == 1 else 's'}{listed}."
