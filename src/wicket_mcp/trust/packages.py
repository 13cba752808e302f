"""What a package's registry says of it: its newest version, and the hashes of its files.

The user's own tools are asked (`npm`, `uv`, else `pip`), because they know the user's registries and credentials.
`wicket pin` keeps the hashes; `Integrity` compares them with those of the registry before a pinned server starts, once
a day: a version whose files have changed under it is not what was pinned, and does not start.
"""

import asyncio
import logging
import re
import shutil
import subprocess
import sys
import time
from typing import Protocol

from wicket_mcp.codec import decode
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.errors import CannotStart, ConfigError, WicketError
from wicket_mcp.model import as_list, as_object, as_text
from wicket_mcp.store.base import NoteStore, PinStore
from wicket_mcp.trust.launchers import Package, package_of

log = logging.getLogger(__name__)

KIND = "package"
"""Of the pins that hold a package's hashes."""
PATIENCE = 60.0  # seconds that `wicket pin` waits for a registry
START_PATIENCE = 15.0  # seconds that a server's start waits for one
EVERY = 86400.0

_PINNED = re.compile(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?==([^\s\\;]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(\S+)")


def look_up(package: Package, patience: float = PATIENCE) -> tuple[str, str]:
    """The version that the launcher would run now, and the hashes of its files, sorted. Raises ConfigError."""
    if package.registry == "npm":
        retries = ("--fetch-retries=0",) if patience < PATIENCE else ()
        answer = _run(["npm", "view", package.spec, "version", "dist.integrity", "--json", *retries], patience)
        said = as_object(decode(answer))
        return as_text(said.get("version")), as_text(said.get("dist.integrity"))
    if (uv := shutil.which("uv")) is not None:
        options = ("--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--quiet", "-")
        compiled = _run([uv, "pip", "compile", *options], patience, package.requirement)
        version = _PINNED.search(compiled)
        return version[1] if version else "", " ".join(sorted(_HASH.findall(compiled)))
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
    report = as_object(decode(_run([sys.executable, "-m", "pip", "install", *options, package.requirement], patience)))
    chosen = as_object(next(iter(as_list(report.get("install"))), None))
    archive = as_object(as_object(chosen.get("download_info")).get("archive_info"))
    return as_text(as_object(chosen.get("metadata")).get("version")), as_text(archive.get("hash")).replace("=", ":")


def _run(command: list[str], patience: float, text: str = "") -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=patience, check=True)
    except FileNotFoundError:
        raise ConfigError(f"'{command[0]}' is needed to ask for versions and is not on the PATH.") from None
    except (subprocess.SubprocessError, OSError) as problem:
        said = (getattr(problem, "stderr", "") or str(problem)).strip().splitlines()
        if said and said[-1].endswith("No module named pip"):
            raise ConfigError(
                "'uv' or 'pip' is needed to ask for versions.", hint="Install uv, then try again."
            ) from None
        raise ConfigError(f"no version could be found: {said[-1] if said else problem}") from None
    return done.stdout


class _State(PinStore, NoteStore, Protocol):
    """What is remembered: the hashes, and when they were last compared."""


class Integrity:
    """Whether the package of a server is still the one that was pinned."""

    def __init__(self, store: _State) -> None:
        self._store = store

    async def check(self, server: ServerConfig) -> None:
        """Raises CannotStart for another one. Where nothing was pinned, or nobody can be asked, it may start."""
        package = package_of(server)
        if package is None or not package.pinned or package.registry == "oci":
            return
        try:
            kept = await self._kept(server.name, package)
            note = f"integrity {package.registry} {package.spec}"
            if not kept or await self._is_recent(note, kept):
                return
            _, now = await asyncio.to_thread(look_up, package, START_PATIENCE)
        except (WicketError, ValueError) as problem:
            log.warning("whether %s is what was pinned could not be checked: %s", package.spec, problem)
            return
        if not is_same(kept, now):
            raise CannotStart(
                server.name,
                f"{package.spec} is not what was pinned: its registry has other files for this version now ({now}).",
                hint=f"Look into it before anything else. If it is meant to be so: wicket pin {server.name} --renew",
            )
        await self._store.save_note(note, f"{time.time():.0f} {kept}")

    async def _kept(self, server: str, package: Package) -> str:
        pins = [pin for pin in await self._store.pins(server) if pin.kind == KIND and pin.name == package.spec]
        return max(pins, key=lambda pin: pin.at).digest if pins else ""

    async def _is_recent(self, note: str, kept: str) -> bool:
        at, _, hashes = (await self._store.load_note(note) or "0").partition(" ")
        return hashes == kept and at.isdecimal() and time.time() - int(at) < EVERY


def is_same(kept: str, now: str) -> bool:
    """Whether a registry has the files that were pinned and no others; pip names only the one that it would take."""
    before, after = set(kept.split()), set(now.split())
    return bool(after) and (after <= before or (len(before) == 1 and before <= after))
