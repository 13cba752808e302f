"""`wicket trust`, the same question on a terminal, and the user's own edits, which need no question.

A configuration that lies in a folder starts nothing until its owner said yes to it (`config/read/folder_trust.py`).
"""

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config, ServerConfig


_CHANGES_WHAT_RUNS = re.compile(
    r"(?:PATH|SHELL|ENV|BASH_ENV|IFS|HOME|EDITOR|PAGER|\w*_OPTIONS|\w*OPTS?|(?:NODE|LD|DYLD|PYTHON|PERL5?|RUBY|JAVA|GIT|NPM"
    r"|BUN|DENO|UV|PIP|DOCKER|SSL)\w*|\w*_PROXY)=",
    re.IGNORECASE,
)
"""Variables that decide which code runs or where it is fetched from."""


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
    content, config = _read(file)
    changed = " has changed since you trusted it and" if folder_trust.was_trusted(file) else ""
    note(f"{file}{changed} would start:\n{_commands(config)}")
    if not typer.confirm("Do you trust it?", default=False, err=True):
        return False
    folder_trust.trust(file, content)  # what was shown, whatever the file has become since
    return True


@contextmanager
def keep_trust(path: Path) -> Generator[None]:
    """What the user's own command writes needs no question, unless the file was there before and had no yes."""
    from wicket_mcp.config.read import folder_trust, locate

    before = path.read_bytes() if path.is_file() else None
    yield
    if path.parent == locate.config_folder() or not path.is_file():
        return
    if before is None or folder_trust.is_trusted(path, before):
        folder_trust.trust(path, path.read_bytes())


def _accept(file: Path) -> "Config":
    """Remember the yes to the very bytes that were read and checked."""
    from wicket_mcp.config.read import folder_trust

    content, config = _read(file)
    folder_trust.trust(file, content)
    return config


def _read(file: Path) -> "tuple[bytes, Config]":
    from wicket_mcp.config.read.formats import parse, read_bytes

    content = read_bytes(file)
    return content, parse(content.decode("utf-8-sig", "replace"), file)


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


def _commands(config: "Config") -> str:
    """What each server is started with or reached at, and what else the file decides about; references to secrets stand
    as the file has them. Each on one line: no text of the file can pose as a line of ours.
    """
    lines = [
        f"{server.name}: {server.url or ' '.join((server.command or '', *server.args))}{_surroundings(server)}"
        for server in config.servers
    ]
    lines += _other_options(config)
    return "\n".join(f"  {' '.join(line.split())}" for line in lines) or "  nothing"


def _surroundings(server: "ServerConfig") -> str:
    """The variables and headers that a server gets, with the values of those that change what runs or refer to yours,
    and its folder.
    """
    from wicket_mcp.telemetry.redact import mask_arguments

    assigned = mask_arguments([f"{name}={value}" for name, value in server.env.items()])
    variables = [
        text if _CHANGES_WHAT_RUNS.match(text) and "${" not in value else _with_reference(name, "=", value)
        for (name, value), text in zip(server.env.items(), assigned, strict=True)
    ]
    variables += [*server.inherit_env, *server.required_keys]
    headers = (_with_reference(name, ": ", value) for name, value in server.headers.items())
    parts = [f"env {', '.join(variables)}"] if variables else []
    parts += [f"headers {', '.join(headers)}"] if server.headers else []
    parts += [f"variables of {server.env_file}"] if server.env_file else []
    parts += [f"in {server.cwd}"] if server.cwd else []
    return f" ({'; '.join(parts)})" if parts else ""


def _with_reference(name: str, between: str, value: str) -> str:
    """The name, with its value if that refers to something of the user's, which would be sent."""
    return f"{name}{between}{value}" if "${" in value else name


def _other_options(config: "Config") -> list[str]:
    """Options beside the servers that run a program, or send data or listen elsewhere."""
    options = {
        "oauth.browser": config.oauth.browser,
        "store": config.store,
        "shared_limits": config.shared_limits,
        "trace.endpoint": config.trace.endpoint,
        "audit.file": config.audit.file,
        "http.host": "" if config.http.host == "127.0.0.1" else config.http.host,
        "allow_runtime_servers": "true" if config.allow_runtime_servers else "",
    }
    return [f"{name} = {value}" for name, value in options.items() if value]
