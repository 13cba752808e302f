"""`wicket pins` and `pin`: what servers may say, who accepted it, and which version of them runs."""

import getpass
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, read, with_library
from wicket_mcp.cli.output import note, say, say_json, table
from wicket_mcp.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wicket_mcp.config.model.config import Config
    from wicket_mcp.config.model.server import ServerConfig
    from wicket_mcp.library import Library
    from wicket_mcp.store.model import StoredPin
    from wicket_mcp.trust.launchers import Package
    from wicket_mcp.trust.pins import Held


def pins(
    server: Annotated[str | None, typer.Argument(help="Only this server's.", show_default=False)] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List the accepted definitions of servers, and who approved them.

    Example: wicket pins github
    """

    async def work(library: "Library") -> list[dict[str, Any]]:
        from wicket_mcp.catalog.listing import fingerprint

        catalogue = library.catalogue
        await catalogue.load()
        servers = catalogue.servers.values() if server is None else [catalogue.server(server)]
        sources = {entry.name: fingerprint(entry) for entry in servers}
        # The state of a user has the pins of other folders' servers too, some of which may have the same name.
        rows = [_row(pin) for pin in await library.store.pins() if sources.get(pin.server) == pin.source]
        for name in sources:
            rows += [_held_row(held) for held in catalogue.held_entries(name).values()]
        return rows

    rows = with_library(config, work, verbose=verbose)
    if json:
        say_json(rows)
    elif not rows:
        note("Nothing is pinned yet: what a server offers is pinned when it is first seen.")
    else:
        cells = ((r["name"], r["kind"], r["digest"][:12], r["state"], r["by"], r["at"]) for r in rows)
        table(("NAME", "KIND", "DIGEST", "STATE", "APPROVED BY", "WHEN"), cells)


def pin(
    server: Annotated[str | None, typer.Argument(help="Only this server.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    renew: Annotated[
        bool, typer.Option("--renew", help="Read the hashes of versions that are already pinned again.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Pin the packages of servers to their versions.

    Asks npm, uv or pip for the newest version, writes it into wicket.toml, and keeps the hashes of its files. If the
    files change later, the server does not start. A container image gets its digest.

    Example: wicket pin --dry-run
    """
    from wicket_mcp.trust.packages import KIND, look_up

    settings = _own_file(read(config))
    servers = {entry.name: entry for entry in settings.servers}
    written = {name: list(entry.args) for name, entry in servers.items()}
    if server is not None and server not in servers:
        raise UnknownName("server", server, list(servers)[:3])
    stored = with_library(config, lambda library: library.store.pins(), verbose=verbose)
    known = {(pin.server, pin.name) for pin in stored if pin.kind == KIND}
    pinned: list[dict[str, str]] = []
    failed = False
    for name, package in _packages(servers.values(), server):
        if package.pinned and (name, package.spec) in known and not renew:
            continue
        try:
            version, integrity = look_up(package)
        except ConfigError as problem:
            failed = True
            note(f"{name}: {package.spec} could not be pinned: {problem}")
            continue
        spec = package.spec if package.pinned else package.pin(version)
        args = written[name]
        if (argument := package.argument(spec, args[package.at])) is None:
            failed = True
            note(f"{name}: the shell's command is too involved to be changed. Write {spec} into it yourself.")
            continue
        pinned.append({"server": name, "package": spec, "integrity": integrity})
        if not dry_run and not package.pinned and settings.path is not None:
            args[package.at] = argument
            _write(settings.path, name, args)
    if not dry_run and pinned:
        with_library(settings.path, lambda library: _remember(library, pinned), verbose=verbose)
    if json:
        say_json(pinned)
    elif not pinned and not failed:
        say("Every package has its version.")
    elif pinned:
        rows = ((p["server"], p["package"], _abbreviate(p["integrity"])) for p in pinned)
        table(("SERVER", "PACKAGE", "INTEGRITY"), rows)
        if not dry_run:
            note("If the files of a package change later, its server does not start.")
    if failed:
        raise typer.Exit(1)


def _own_file(settings: "Config") -> "Config":
    """Raises ConfigError for a configuration that Wicket does not change."""
    if settings.path is None or settings.path.suffix != ".toml":
        raise ConfigError(
            "belongs to another program, and Wicket changes only its own file.",
            file=str(settings.path),
            hint=f"Import it first: wicket import {settings.path}",
        )
    return settings


def _packages(servers: "Iterable[ServerConfig]", only: str | None) -> "Iterator[tuple[str, Package]]":
    from wicket_mcp.trust.launchers import packages_of

    for server in servers:
        for package in packages_of(server) if only in (None, server.name) else ():
            needs_no_hash = package.pinned and (package.registry == "oci" or package.is_address)
            if not needs_no_hash:
                yield server.name, package


def _abbreviate(integrity: str) -> str:
    first, _, others = integrity.partition(" ")
    more = f" and {len(others.split())} more" if others else ""
    return f"{first[:24]}…{more}" if first else "the registry has none"


async def _remember(library: "Library", pinned: list[dict[str, str]]) -> None:
    from wicket_mcp.catalog.listing import fingerprint
    from wicket_mcp.store.model import StoredPin
    from wicket_mcp.trust.packages import KIND

    by, now, servers = getpass.getuser(), time.time(), library.catalogue.servers
    await library.store.save_pins(
        [
            StoredPin(name, fingerprint(servers[name]), KIND, entry["package"], entry["integrity"], b"{}", by, now)
            for entry in pinned
            if (name := entry["server"]) in servers and entry["integrity"]
        ]
    )


def _write(path: Path, server: str, args: list[str]) -> None:
    from wicket_mcp.cli.trust import keep_trust
    from wicket_mcp.config.edit import toml, wicket_toml
    from wicket_mcp.config.edit.client_entries import read_text

    with keep_trust(path):
        wicket_toml.save(path, toml.set_key(read_text(path), ("servers", server), "args", args))


def _row(pin: "StoredPin") -> dict[str, Any]:
    name = f"{pin.server}.{pin.name}" if pin.name else pin.server
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(pin.at))
    return {"name": name, "kind": pin.kind, "digest": pin.digest, "state": "approved", "by": pin.approved_by, "at": at}


def _held_row(held: "Held") -> dict[str, Any]:
    state = f"held: {held.words}"
    return {"name": held.key, "kind": held.kind, "digest": held.digest, "state": state, "by": "", "at": ""}
