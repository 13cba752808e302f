"""Packages of servers: the newest version, the hashes of its files, and whether they still match the pins.

Uses the user's own tools (`npm`, `uv`, else `pip`), because they know the user's registries and credentials. `wicket
pin` stores the hashes. Before a pinned server starts, once a day, `Integrity` fetches its archive and compares it with
the hashes, whatever the registry says by then: a version whose files have changed does not start. A container image is
pinned to its digest (`images.py`), which its engine checks itself.
"""

import asyncio
import hashlib
import logging
import os
import re
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from wicket_mcp.codec import decode
from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.errors import CannotStart, ConfigError, WicketError
from wicket_mcp.interpreter import PYTHON, isolated_environment, module_command
from wicket_mcp.model import as_list, as_object, as_text
from wicket_mcp.store.base import NoteStore, PinStore
from wicket_mcp.trust.launchers import Package, packages_of

log = logging.getLogger(__name__)

KIND = "package"
"""The kind of pins that hold a package's hashes."""
PATIENCE = 60.0  # seconds that `wicket pin` waits for a registry
START_PATIENCE = 15.0  # seconds that a server's start waits for one
EVERY = 86400.0
OTHER_FILES = "other files"
"""Used instead of a hash if a tool has compared the archive itself."""
_WRONG_HASH = ("EINTEGRITY", "Hash mismatch", "DO NOT MATCH THE HASHES")
"""The messages of npm, uv and pip about an archive with a wrong hash."""

_BARRIERS = {"package.json": "{}", ".npmrc": "", "pyproject.toml": "", "uv.toml": ""}
"""npm and uv also look for their configuration in the parents of a folder, unless it has its own."""

_PINNED = re.compile(r"^[A-Za-z0-9._-]+(?:\[[^\]]*\])?==([^\s\\;]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(\S+)")


def look_up(package: Package, patience: float = PATIENCE) -> tuple[str, str]:
    """The version that the launcher would run now, and the hashes of its files, sorted. Raises ConfigError.

    For an image both are its digest.
    """
    if package.is_address:
        raise ConfigError(
            f"{package.spec} is not a package of npm or PyPI.",
            hint="Write its exact version, or the commit (40 digits) of an address, into the server's args.",
        )
    version, hashes = _ask_registry(package, patience)
    if not version:
        raise ConfigError(
            f"the registry named no version of {package.spec}.",
            hint=f'Check the name, or write the version yourself: "{package.pin("VERSION")}"',
        )
    return version, hashes


def _ask_registry(package: Package, patience: float) -> tuple[str, str]:
    if package.registry == "oci":
        from wicket_mcp.trust.images import digest_of  # noqa: PLC0415  (for those who pin one)

        digest = digest_of(package.launcher, package.spec, patience)
        return digest, digest
    if package.registry == "npm":
        retries = ("--fetch-retries=0",) if patience < PATIENCE else ()
        answer = _run(["npm", "view", package.spec, "version", "dist.integrity", "--json", *retries], patience)
        versions = decode(answer or "{}")
        document = as_object(
            as_list(versions)[-1] if isinstance(versions, list) and versions else versions
        )  # newest last
        return as_text(document.get("version")), as_text(document.get("dist.integrity"))
    if (uv := shutil.which("uv")) is not None:
        options = ("--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--python", PYTHON, "-")
        compiled = _run([uv, "pip", "compile", *options], patience, package.requirement)
        version = _PINNED.search(compiled)
        return version[1] if version else "", " ".join(sorted(_HASH.findall(compiled)))
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
    report = as_object(decode(_run([*module_command("pip", "install"), *options, package.requirement], patience)))
    chosen = as_object(next(iter(as_list(report.get("install"))), None))
    archive = as_object(as_object(chosen.get("download_info")).get("archive_info"))
    return as_text(as_object(chosen.get("metadata")).get("version")), as_text(archive.get("hash")).replace("=", ":")


def fetch(package: Package, pinned: str, patience: float) -> str:
    """The hash of the archive that the launcher would get now, in the format of `pinned`; OTHER_FILES if the tool
    reports a mismatch.

    Raises ConfigError if it cannot be fetched.
    """
    import tempfile  # noqa: PLC0415  (for those who check a package)

    with tempfile.TemporaryDirectory(prefix="wicket-package-", ignore_cleanup_errors=True) as folder:
        if package.registry == "npm":
            options = ("--ignore-scripts", "--fetch-retries=0", "--pack-destination", folder)
            correct = _is_correct(["npm", "pack", package.spec, *options], patience)
        elif (uv := shutil.which("uv")) is not None:
            hashes = " ".join(f"--hash={digest}" for digest in pinned.split())
            options = ("--require-hashes", "--no-deps", "--no-build", "--quiet", "--python", PYTHON)
            command = [uv, "pip", "install", *options, "--target", folder, "-r", "-"]
            return pinned if _is_correct(command, patience, f"{package.requirement} {hashes}") else OTHER_FILES
        else:
            options = ("--no-deps", "--only-binary=:all:", "--quiet", "--dest", folder)
            correct = _is_correct([*module_command("pip", "download"), *options, package.requirement], patience)
        archive = next(iter(Path(folder).iterdir()), None)
        if correct and archive is None:
            raise ConfigError(f"no archive of {package.spec} could be fetched")
        return hash_of(archive.read_bytes(), pinned) if correct and archive is not None else OTHER_FILES


def hash_of(archive: bytes, like: str) -> str:
    """The hash of an archive, in the same format as another: `sha512-BASE64`, `sha256:HEX`."""
    name, separator, _ = re.split(r"([-:])", like.split(maxsplit=1)[0], maxsplit=1)
    if name not in hashlib.algorithms_guaranteed:
        raise ConfigError(f"'{name}' is not a hash that can be computed")
    digest = hashlib.new(name, archive, usedforsecurity=False).digest()
    return f"{name}{separator}{b64encode(digest).decode() if separator == '-' else digest.hex()}"


def _is_correct(command: list[str], patience: float, text: str = "") -> bool:
    """Whether an archive has the hash that we or the registry told the tool to expect."""
    try:
        _run(command, patience, text)
    except _ToolFailed as failure:
        if not any(words in failure.output for words in _WRONG_HASH):
            raise
        return False
    return True


class _ToolFailed(ConfigError):
    """A tool failed, with its reason."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


@contextmanager
def _own_folder() -> Generator[str]:
    """A folder in which no tool finds a configuration but its user's own: the current one may be a stranger's."""
    import tempfile  # noqa: PLC0415  (for those who check a package)

    with tempfile.TemporaryDirectory(prefix="wicket-tool-", ignore_cleanup_errors=True) as folder:
        for name, text in _BARRIERS.items():
            Path(folder, name).write_text(text, "utf-8")
        yield folder


def _run(command: list[str], patience: float, text: str = "") -> str:
    try:
        with _own_folder() as folder:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                timeout=patience,
                check=True,
                cwd=folder,
                env=isolated_environment(os.environ),
            )
    except FileNotFoundError:
        raise ConfigError(f"'{command[0]}' is needed to ask for versions and is not on the PATH.") from None
    except (subprocess.SubprocessError, OSError) as problem:
        lines = (getattr(problem, "stderr", "") or str(problem)).strip()
        if lines.endswith("No module named pip"):
            raise ConfigError(
                "'uv' or 'pip' is needed to ask for versions.", hint="Install uv, then try again."
            ) from None
        last = lines.splitlines()[-1] if lines else problem
        raise _ToolFailed(f"no version could be found: {last}", lines) from None
    return done.stdout


class _State(PinStore, NoteStore, Protocol):
    """What is stored: the hashes, and when they were last compared."""


class Integrity:
    """Checks that the packages of a server are still the pinned ones."""

    def __init__(self, store: _State) -> None:
        self._store = store

    async def check(self, server: ServerConfig) -> None:
        """Raises CannotStart for a different package. If nothing was pinned, or no registry answers, the server may
        start.
        """
        for package in packages_of(server):
            if package.pinned and package.registry != "oci":
                await self._check(server, package)

    async def _check(self, server: ServerConfig, package: Package) -> None:
        try:
            pinned = await self._pinned_integrity(server.name, package)
            note = f"integrity {package.registry} {package.spec}"
            if not pinned or await self._is_recent(note, pinned):
                return
            now = await asyncio.to_thread(_hashes_now, package, pinned)
        except (WicketError, ValueError) as problem:
            log.warning("whether %s is what was pinned could not be checked: %s", package.spec, problem)
            return
        if not is_same(pinned, now):
            raise CannotStart(
                server.name,
                f"{package.spec} is not what was pinned: its registry has other files for this version{_name(now)}.",
                hint=f"Find out why first. If the change is intended: wicket pin {server.name} --renew",
            )
        await self._store.save_note(note, f"{time.time():.0f} {pinned}")

    async def _pinned_integrity(self, server: str, package: Package) -> str:
        pins = [pin for pin in await self._store.pins(server) if pin.kind == KIND and pin.name == package.spec]
        return max(pins, key=lambda pin: pin.at).digest if pins else ""

    async def _is_recent(self, note: str, pinned: str) -> bool:
        at, _, hashes = (await self._store.load_note(note) or "0").partition(" ")
        return hashes == pinned and at.isdecimal() and time.time() - int(at) < EVERY


def _hashes_now(package: Package, pinned: str) -> str:
    """The hash of the archive itself; if it cannot be fetched alone, the registry's statement. Raises ConfigError."""
    try:
        return fetch(package, pinned, START_PATIENCE)
    except ConfigError as problem:
        log.debug("the archive of %s could not be fetched: %s", package.spec, problem)
        return look_up(package, START_PATIENCE)[1]


def _name(hashes: str) -> str:
    return "" if hashes == OTHER_FILES else f" ({hashes})"


def is_same(pinned: str, now: str) -> bool:
    """Whether a registry has exactly the pinned files; pip names only the file that it would use."""
    before, after = set(pinned.split()), set(now.split())
    return bool(after) and (after <= before or (len(before) == 1 and before <= after))
