"""`wicket pins`, `approve` and `pin`: what servers may say, who accepted it, and which version of them runs."""

import getpass
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, read, with_library
from wicket_mcp.cli.output import note, say, say_json, table
from wicket_mcp.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from wicket_mcp.library import Library
    from wicket_mcp.store.model import StoredPin
    from wicket_mcp.trust.launchers import Package
    from wicket_mcp.trust.pins import Held

_REGISTRY_PATIENCE = 60.0


def pins(
    server: Annotated[str | None, typer.Argument(help="Only this server's.", show_default=False)] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List what servers may say, and who approved it.

    Example: wicket pins github
    """

    async def work(library: "Library") -> list[dict[str, Any]]:
        await library.catalogue.load()
        kept = await library.store.pins(server or "")
        rows = [_row(pin) for pin in kept]
        for name in library.catalogue.servers if server is None else [server]:
            rows += [_held_row(held) for held in library.catalogue.held(name).values()]
        return rows

    rows = with_library(config, work, verbose=verbose)
    if json:
        say_json(rows)
    elif not rows:
        note("Nothing is pinned yet: what a server offers is pinned when it is first seen.")
    else:
        shown = ((r["name"], r["kind"], r["digest"][:12], r["state"], r["by"], r["at"]) for r in rows)
        table(("NAME", "KIND", "DIGEST", "STATE", "APPROVED BY", "WHEN"), shown)


def approve(
    name: Annotated[
        str,
        typer.Argument(help="A held tool (server.tool), a server, or the id of a call; without, what waits."),
    ] = "",
    always: Annotated[
        bool, typer.Option("--always", help="Approve this call, and each one with the same arguments from now on.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Approve a tool that changed, or a call that waits.

    Shows what changed, word for word. A server's name approves everything of it that is held.

    Example: wicket approve github.create_issue
    """
    by = getpass.getuser()
    if not name:
        _list_waiting(config, json=json, verbose=verbose)
        return

    async def work(library: "Library") -> list[str]:
        from wicket_mcp.calls.approve import ALWAYS_MARK
        from wicket_mcp.trust.always import FILE

        catalogue = library.catalogue
        await catalogue.load()
        call = await library.store.approve(name, f"{by}{ALWAYS_MARK}" if always else by, time.time())
        if call is not None:
            note(call.words)
            if always:
                note(f"The rule will stand in {library.config.state_path / FILE}, once the call is made again.")
            return [f"call {call.id} of {call.server}.{call.tool}"]
        if always:
            raise UnknownName("open question", name, hint="--always is for calls; see: wicket approve")
        changes = [held for server in catalogue.servers for held in catalogue.held(server).values()]
        wanted = [held for held in changes if name in (held.key, held.server)]
        if not wanted:
            raise UnknownName("held tool", name, [held.key for held in changes][:3], hint="See: wicket pins")
        for held in wanted:
            note(f"{held.kind} {held.key}: {held.words}\n{held.diff()}")
            await catalogue.approve(held, by)
        return [f"{held.kind} {held.key}" for held in wanted]

    approved = with_library(config, work, verbose=verbose)
    if json:
        say_json({"approved": approved, "by": by})
    else:
        say(f"Approved {', '.join(approved)}.")


def pin(
    server: Annotated[str | None, typer.Argument(help="Only this server.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it and change nothing.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Pin the packages of servers to their versions.

    Asks npm or pip which version is newest now, writes it into wicket.toml, and keeps its integrity hash.

    Example: wicket pin --dry-run
    """
    from wicket_mcp.trust.launchers import package_of

    settings = read(config)
    if settings.path is None or settings.path.suffix != ".toml":
        raise ConfigError(
            "belongs to another program, and Wicket changes only its own file.",
            file=str(settings.path),
            hint=f"Import it first: wicket import {settings.path}",
        )
    if server is not None and server not in {each.name for each in settings.servers}:
        raise UnknownName("server", server, [each.name for each in settings.servers][:3])
    pinned: list[dict[str, str]] = []
    for each in settings.servers:
        package = package_of(each) if server in (None, each.name) else None
        if package is None or package.pinned or package.registry == "oci":
            continue
        version, integrity = _newest(package)
        pinned.append({"server": each.name, "package": package.pin(version), "integrity": integrity})
        if not dry_run:
            _write(settings.path, each.name, list(each.args), package.at, package.pin(version))
    if not dry_run and pinned:
        with_library(settings.path, lambda library: _remember(library, pinned), verbose=verbose)
    if json:
        say_json(pinned)
    elif not pinned:
        say("Every package has its version.")
    else:
        table(("SERVER", "PACKAGE", "INTEGRITY"), ((p["server"], p["package"], p["integrity"]) for p in pinned))


def _list_waiting(config: Path | None, *, json: bool, verbose: bool) -> None:
    async def work(library: "Library") -> list[dict[str, str]]:
        catalogue = library.catalogue
        await catalogue.load()
        calls = [one for one in await library.store.approvals(time.time()) if not one.approved_by]
        rows = [{"name": one.id, "what": one.words} for one in calls]
        changes = [held for server in catalogue.servers for held in catalogue.held(server).values()]
        return rows + [{"name": held.key, "what": f"{held.kind}: {held.words}"} for held in changes]

    rows = with_library(config, work, verbose=verbose)
    if json:
        say_json(rows)
    elif not rows:
        say("Nothing waits for an approval.")
    else:
        table(("NAME", "WHAT"), ((row["name"], row["what"]) for row in rows))


async def _remember(library: "Library", pinned: list[dict[str, str]]) -> None:
    from wicket_mcp.catalog.catalogue import fingerprint
    from wicket_mcp.store.model import StoredPin

    by, now, servers = getpass.getuser(), time.time(), library.catalogue.servers
    await library.store.save_pins(
        [
            StoredPin(name, fingerprint(servers[name]), "package", one["package"], one["integrity"], b"{}", by, now)
            for one in pinned
            if (name := one["server"]) in servers
        ]
    )


def _newest(package: "Package") -> tuple[str, str]:
    """The version that the launcher would run now, and the registry's hash of it. Raises ConfigError."""
    from wicket_mcp.codec import decode
    from wicket_mcp.model import as_list, as_object, as_text

    if package.registry == "npm":
        told = as_object(decode(_run("npm", "view", package.spec, "version", "dist.integrity", "--json")))
        return as_text(told.get("version")), as_text(told.get("dist.integrity"))
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
    report = as_object(decode(_run(sys.executable, "-m", "pip", "install", *options, package.spec)))
    chosen = as_object(next(iter(as_list(report.get("install"))), None))
    archive = as_object(as_object(chosen.get("download_info")).get("archive_info"))
    return as_text(as_object(chosen.get("metadata")).get("version")), as_text(archive.get("hash")).replace("=", ":")


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_REGISTRY_PATIENCE, check=True)
    except FileNotFoundError:
        raise ConfigError(f"'{command[0]}' is needed to ask for versions and is not on the PATH.") from None
    except (subprocess.SubprocessError, OSError) as problem:
        said = (getattr(problem, "stderr", "") or str(problem)).strip().splitlines()
        raise ConfigError(f"no version could be found: {said[-1] if said else problem}") from None
    return done.stdout


def _write(path: Path, server: str, args: list[str], at: int, spec: str) -> None:
    from wicket_mcp.cli.trust import keep_trust
    from wicket_mcp.config.edit import toml, wicket_toml
    from wicket_mcp.config.edit.client_entries import read_text

    args[at] = spec
    with keep_trust(path):
        wicket_toml.save(path, toml.set_key(read_text(path), ("servers", server), "args", args))


def _row(pin: "StoredPin") -> dict[str, Any]:
    name = f"{pin.server}.{pin.name}" if pin.name else pin.server
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(pin.at))
    return {"name": name, "kind": pin.kind, "digest": pin.digest, "state": "approved", "by": pin.approved_by, "at": at}


def _held_row(held: "Held") -> dict[str, Any]:
    state = f"held: {held.words}"
    return {"name": held.key, "kind": held.kind, "digest": held.digest, "state": state, "by": "", "at": ""}
