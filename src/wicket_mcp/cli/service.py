"""`wicket service`: have the user's own service manager run `wicket serve --http`: systemd on Linux, launchd on macOS.

Writes one file of the user's and tells the manager; nothing needs root, and no secret is in the file.
"""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from wicket_mcp.cli.common import ConfigOption
from wicket_mcp.cli.output import note, say
from wicket_mcp.errors import ConfigError
from wicket_mcp.interpreter import module_command

app = typer.Typer(no_args_is_help=True, help="Let systemd or launchd run wicket serve --http.", rich_markup_mode=None)

LABEL = "wicket"
MASTER_ENDS_WITHIN = 20
"""Seconds that the service has to stop after its workers."""
HttpOption = Annotated[
    str, typer.Option("--http", help="Address to serve at: HOST:PORT, HOST or PORT.", metavar="HOST:PORT")
]


@app.command("install")
def install(
    http: HttpOption = ":",
    workers: Annotated[int, typer.Option("--workers", help="Number of processes that serve.", min=1)] = 1,
    print_only: Annotated[bool, typer.Option("--print", help="Print the file and change nothing.")] = False,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it now, and at every login.")] = True,
    config: ConfigOption = None,
) -> None:
    """Write a unit (systemd) or an agent (launchd) that serves HTTP, and start it.

    Example: wicket service install --http 127.0.0.1:8377
    """
    from wicket_mcp.config.read.formats import load
    from wicket_mcp.config.read.locate import find_config
    from wicket_mcp.workers import leave_within

    file = find_config(config).absolute()
    serve = ("serve", "--http", http, "--workers", str(workers), "--config", str(file))
    command = list(module_command("wicket_mcp", *serve))
    stop_within = math.ceil(leave_within(load(file).http.leave_after)) + MASTER_ENDS_WITHIN
    text = plist(command, stop_within) if sys.platform == "darwin" else unit(command, stop_within)
    if print_only:
        sys.stdout.write(text)
        return
    from wicket_mcp.files import replace_file

    path = place()
    replace_file(path, text, 0o644)
    say(f"written: {path}")
    if start:
        _run(*_start_commands(path))
        say("started; it starts again at every login")


@app.command("uninstall")
def uninstall() -> None:
    """Stop the service and remove its file.

    Example: wicket service uninstall
    """
    path = place()
    if not path.exists():
        note(f"There is no service: {path} does not exist.")
        return
    _run(*_stop_commands(path), check=False)
    path.unlink()
    say(f"removed: {path}")


def place() -> Path:
    """The file of the user's service."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user" / f"{LABEL}.service"


def unit(command: list[str], stop_within: int) -> str:
    """A systemd user unit. `systemctl --user reload wicket` replaces the workers without losing a call."""
    return f"""[Unit]
Description=Wicket, a gateway in front of MCP servers
After=network.target

[Service]
ExecStart={" ".join(map(_quote, command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
KillMode=mixed
Delegate=yes
TimeoutStopSec={stop_within}

[Install]
WantedBy=default.target
"""


def plist(command: list[str], stop_within: int) -> str:
    """A launchd agent."""
    import plistlib

    log = str(Path.home() / "Library" / "Logs" / f"{LABEL}.log")
    agent = {
        "Label": LABEL,
        "ProgramArguments": command,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": stop_within,
        "StandardErrorPath": log,
        "StandardOutPath": log,
    }
    return plistlib.dumps(agent).decode()


def _quote(argument: str) -> str:
    """An argument as systemd reads it (systemd.service(5), "Command lines")."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != argument or any(c.isspace() or c in "';" for c in argument) else argument


def _start_commands(path: Path) -> tuple[tuple[str, ...], ...]:
    if sys.platform == "darwin":
        return (("launchctl", "unload", str(path)), ("launchctl", "load", "-w", str(path)))
    return (("systemctl", "--user", "daemon-reload"), ("systemctl", "--user", "enable", "--now", f"{LABEL}.service"))


def _stop_commands(path: Path) -> tuple[tuple[str, ...], ...]:
    if sys.platform == "darwin":
        return (("launchctl", "unload", "-w", str(path)),)
    return (("systemctl", "--user", "disable", "--now", f"{LABEL}.service"),)


def _run(*commands: tuple[str, ...], check: bool = True) -> None:
    program = commands[0][0]
    if shutil.which(program) is None:
        if check:
            hint = "Use --no-start, and have your own service manager run the command in the file."
            raise ConfigError(f"{program} was not found: nothing was started", key="service", hint=hint)
        return
    for number, command in enumerate(commands):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode and number == len(commands) - 1:
            messages = (done.stderr or done.stdout).strip().splitlines() or ["it did not say why"]
            hint = "The file is written. Start it from a session of this user (loginctl), or run its command yourself."
            raise ConfigError(f"{' '.join(command)} failed: {messages[-1]}", key="service", hint=hint)
