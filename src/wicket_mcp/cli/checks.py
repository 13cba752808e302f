"""What `wicket doctor` looks at. Every finding names the line that fixes it, and some can be fixed by it.

Pure questions about the configuration, the machine and the listings; nothing here prints. Starting servers is the
caller's business: `listed` judges what came of it.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import wicket_mcp
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.names import wire_names
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.config.read.secrets import literal_secrets, missing_secrets
from wicket_mcp.store.open import STATE_FILE
from wicket_mcp.telemetry.redact import mask_assignments
from wicket_mcp.trust.effects import may_run_code
from wicket_mcp.trust.launchers import packages_of

Level: TypeAlias = Literal["ok", "warning", "problem"]

_LINES_SHOWN = 5  # of what a server printed before it failed

_INSTALLS = {
    "npx": "Install Node.js, which brings npx.",
    "node": "Install Node.js.",
    "uvx": "Install uv, which brings uvx: pip install uv",
    "uv": "Install uv: pip install uv",
    "docker": "Install Docker and start it.",
    "bunx": "Install Bun, which brings bunx.",
    "deno": "Install Deno.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `fix` is what to do; `repair` does it, where that is safe."""

    level: Level
    about: str
    message: str
    fix: str = ""
    output: tuple[str, ...] = ()
    """The last lines that a server printed before it failed."""
    unpinned: str = ""
    """The package whose newest version a server runs."""
    repair: Callable[[], None] | None = field(default=None, repr=False)


def configuration(config: Config) -> Iterator[Finding]:
    enabled = [server for server in config.servers if server.enabled]
    yield Finding("ok", "configuration", f"{config.path}, {len(enabled)} server{'' if len(enabled) == 1 else 's'}")
    if not enabled:
        yield Finding("problem", "configuration", "no server is enabled", "wicket add time -- uvx mcp-server-time")
    for text in config.notes:
        yield Finding("warning", "configuration", text, f"Edit {config.path}, or leave it as it is.")
    yield from _find_exposed_secrets(config)


def server(config: ServerConfig, settings: Config) -> Iterator[Finding]:
    """What can be told of a server without starting it."""
    missing = missing_secrets(config, os.environ, settings.base_dir)
    for name in missing:
        secret_name = name.removeprefix("keyring:")
        fix = f"export {name}=…" if name.isidentifier() else f"Create {name}."
        if secret_name != name:
            yield Finding(
                "problem", config.name, f"needs '{secret_name}' of the keyring", f"wicket secret set {secret_name}"
            )
        else:
            yield Finding("problem", config.name, f"needs {name}, which is not set", fix)
    if config.command is not None and not missing:
        yield from _command(config, settings)
    yield from _find_unpinned(config)


def withheld_roots(servers: Iterable[str]) -> Iterator[Finding]:
    """Servers that clients with open folders have used, and that work on none of those."""
    for name in servers:
        words = "is shared by clients, so it does not get the folders that a client has open"
        yield Finding("warning", name, words, 'isolation = "session" starts one for each client, with its folders.')


def listings(catalogue: Catalogue) -> Iterator[Finding]:
    """What came of asking every server."""
    snapshot = catalogue.now
    for name, config in catalogue.servers.items():
        problem = catalogue.failures.get(name)
        listing = snapshot.listings.get(name)
        if problem is not None:
            summary, *output = problem.split("\n")
            how = "Fix what it printed." if output else "Run its command by hand to see what it prints."
            fix = how if config.command else "Check its url and headers, and that it is up."
            if name in catalogue.unauthenticated:
                summary, fix, output = "nobody has signed in to it", f"wicket login {name}", []
            lines = tuple(mask_assignments(line.strip().removeprefix(f"{name}: ")) for line in output[-_LINES_SHOWN:])
            yield Finding("problem", name, summary.removesuffix(" Run its command by hand to see why."), fix, lines)
        elif listing is not None:
            count = len(listing.tools)
            yield Finding("ok", name, f"starts and lists {count} tool{'' if count == 1 else 's'}")
            for held in catalogue.held_entries(name).values():
                fix = f"Look at it, then: wicket approve {held.key}"
                yield Finding("warning", name, f"{held.kind} '{held.key}' is held: {held.words}", fix)
            for entry in listing.rejected:
                yield Finding("warning", name, f"'{entry.name}': {entry.reason}", "Tell its maker.")
    shortened = [tool.key for name, tool in wire_names(snapshot.tools).items() if name != f"{tool.server}__{tool.name}"]
    if shortened:
        examples = ", ".join(shortened[:3]) + (f" and {len(shortened) - 3} more" if len(shortened) > 3 else "")
        message = f"{len(shortened)} names are too long or unusual for some clients and are shortened there: {examples}"
        yield Finding("warning", "tool names", message, "Give the server a shorter name in the configuration.")
    elif snapshot.tools:
        yield Finding("ok", "tool names", f"all {len(snapshot.tools):,} fit every client")


def approvals(config: Config, catalogue: Catalogue) -> Iterator[Finding]:
    """Rules that ask a person, beside servers through which a program could answer as that person.

    A server that was never listed may have any tool, so it counts.
    """
    if config.policy.flow != "ask" and not any(rule.action == "ask" for rule in config.policy.rules):
        return
    dangerous: list[str] = []
    for name, server in catalogue.servers.items():
        listing = catalogue.now.listings.get(name)
        if server.command is None:
            continue
        example = None if listing is None else next((tool.key for tool in listing.tools if may_run_code(tool)), "")
        if example != "":
            dangerous.append(f"{name} ({'its tools are not known' if example is None else example})")
    if dangerous:
        words = f"rules ask a person, and what can run code as you could answer for you: {', '.join(dangerous)}"
        yield Finding("warning", "policy", words, "Set a passphrase: wicket approve --passphrase")


def machine(config: Config) -> Iterator[Finding]:
    """State folder, token, port, jail and clock."""
    yield from _state(config)
    yield from _port(config)
    yield _jail()
    yield _clock(config)


def _command(config: ServerConfig, settings: Config) -> Iterator[Finding]:
    command = os.path.expandvars(config.command or "")
    folder = settings.base_dir / Path(config.cwd or ".").expanduser()
    if "${" in command or (config.cwd and "$" in config.cwd):
        return
    if not folder.is_dir():
        yield Finding("problem", config.name, f"its folder {folder} does not exist", f"mkdir -p '{folder}'")
        return
    program = Path(command).expanduser()
    if program.name == command:
        is_found = shutil.which(command) is not None
    else:
        is_found = shutil.which(program if program.is_absolute() else folder / program) is not None
    first, _, tail = command.partition(" ")
    if not is_found and tail and shutil.which(first):
        fix = f'Put the arguments into args: command = "{first}", args = ["…"]'
        yield Finding(
            "problem", config.name, "its command contains the arguments too, so no such program is found", fix
        )
    elif not is_found:
        fix = _INSTALLS.get(program.name, f"Install {program.name}, or give its full path as 'command'.")
        yield Finding("problem", config.name, f"its command '{command}' is not on the PATH", fix)


def _find_unpinned(config: ServerConfig) -> Iterator[Finding]:
    """A launcher that fetches whatever is newest runs tomorrow what nobody has looked at today."""
    unpinned = [package for package in packages_of(config) if not package.pinned]
    if not unpinned:
        return
    program, specs = Path(unpinned[0].launcher).name, ", ".join(package.spec for package in unpinned)
    message = f"{program} runs the newest {specs}, whichever version that is"
    pins = (package.pin("sha256:DIGEST" if package.registry == "oci" else "VERSION") for package in unpinned)
    pinned = ", ".join(f'"{pin}"' for pin in pins)
    fix = f"Pin it in its args: {pinned}, or run: wicket pin {config.name}"
    yield Finding("warning", config.name, message, fix, unpinned=specs)


def _find_exposed_secrets(config: Config) -> Iterator[Finding]:
    holding = [server.name for server in config.servers if next(literal_secrets(server), None) is not None]
    if not holding or config.path is None:
        return
    path = config.path
    if path.stat().st_mode & 0o077:
        yield Finding(
            "warning",
            "configuration",
            f"{path} holds secrets ({', '.join(holding)}) and others on this machine may read it",
            f"chmod 600 '{path}'",
            repair=lambda: path.chmod(0o600),
        )


def _state(config: Config) -> Iterator[Finding]:
    folder = config.state_path
    if not folder.exists():
        fix = f"mkdir -p -m 700 '{folder}'"
        if os.access(next(parent for parent in folder.parents if parent.exists()), os.W_OK):
            yield Finding("ok", "state folder", f"{folder} will be made at the first use")
        else:
            yield Finding("problem", "state folder", f"{folder} cannot be made", f"{fix}, or set state_dir")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("problem", "state folder", f"{folder} is not writable", f"chmod u+rwx '{folder}'")
        return
    yield Finding("ok", "state folder", f"{folder} is writable")
    for file in (folder / "token", folder / STATE_FILE):
        if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            message = f"{file} may be read by others on this machine"
            yield Finding(
                "problem", "state folder", message, f"chmod 600 '{file}'", repair=lambda file=file: file.chmod(0o600)
            )


def _port(config: Config) -> Iterator[Finding]:
    import socket

    host, port = config.http.host, config.http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as problem:
            fix = f"wicket serve --http {host}:{port + 1}, or stop what uses it. If it is Wicket, all is well."
            yield Finding("warning", "port", f"{host}:{port} cannot be used: {problem.strerror}", fix)
        else:
            yield Finding("ok", "port", f"{host}:{port} is free")


def _jail() -> Finding:
    try:
        from wicket_mcp.scripts.jail import strength
    except ImportError:
        return Finding("warning", "scripts", "this system has no jail for scripts", "Run Wicket on Linux to use them.")
    walls = strength()
    if walls.complete:
        return Finding("ok", "scripts", f"sandbox: {walls}")
    return Finding("warning", "scripts", f"sandbox: {walls}", "Use Linux 6.7 or newer for all of its protections.")


def _clock(config: Config) -> Finding:
    """A clock that stands before things that already happened breaks certificates, tokens and expiry."""
    now = time.time()
    past = [Path(wicket_mcp.__file__).stat().st_mtime]
    database = config.state_path / STATE_FILE
    if database.exists():
        past.append(database.stat().st_mtime)
    if now + 60 < max(past):
        return Finding("problem", "clock", "the clock is behind files that exist already", "timedatectl set-ntp true")
    return Finding("ok", "clock", time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now)))
