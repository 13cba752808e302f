"""What to start for a package: the command line of each package manager, made of a checked name and arguments.

A name that could be anything but a package (a path, an address, an option, a shell's punctuation) is refused, no
shell is involved, and nothing that a package or registry says about itself gets into the command.
"""

import asyncio
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.config.model.names import is_valid
from wicket_mcp.errors import BadArguments, Unavailable
from wicket_mcp.tasks import uninterrupted
from wicket_mcp.upstream.egress_rules import EgressRules

Kind: TypeAlias = Literal["npm", "pypi", "docker", "remote"]

DOWNLOAD_TIMEOUT = 180.0  # seconds: the first start fetches the package
ENGINE_TIMEOUT = 10.0

_NPM = re.compile(r"(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(@[A-Za-z0-9][A-Za-z0-9._+-]*)?")
_PYPI = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._-]+\])?((==|@)[A-Za-z0-9][A-Za-z0-9._+!-]*)?"
)
_IMAGE = re.compile(
    r"([a-z0-9]+([.-][a-z0-9]+)*(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@sha256:[a-f0-9]{64})?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIMITS = ("--memory", "512m", "--cpus", "1", "--pids-limit", "256", "--cap-drop", "ALL")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A server that somebody wants to have."""

    name: str
    kind: Kind
    command: str
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


async def prepared(wanted: Wanted, rules: EgressRules) -> ServerConfig:
    """How the server is started or reached. Raises BadArguments, Denied, or Unavailable when a program is missing."""
    _check(wanted)
    if wanted.kind == "remote":
        rules.check_url(wanted.command)
        return ServerConfig(name=wanted.name, url=wanted.command)
    package, arguments = _split(wanted)
    command, *leading = await _launcher(wanted, package)
    return ServerConfig(
        name=wanted.name,
        command=command,
        args=(*leading, *arguments),
        env=dict(wanted.env),
        connect_timeout=DOWNLOAD_TIMEOUT,
    )


def _check(wanted: Wanted) -> None:
    problems: list[str] = []
    if not is_valid(wanted.name) or "." in wanted.name:
        problems.append("name takes letters, digits, '-' and '_'")
    if not wanted.command.strip():
        problems.append("command is empty")
    if "${" in wanted.command:
        problems.append("command may not refer to secrets; put them into env")
    if wanted.kind == "remote" and wanted.env:
        problems.append("a remote server takes no env")
    problems += [f"'{name[:40]}' is not a variable name" for name in wanted.env if not _VARIABLE.fullmatch(name)]
    if problems:
        raise BadArguments(f"Invalid installation options: {'; '.join(problems)}.")


def _split(wanted: Wanted) -> tuple[str, list[str]]:
    try:
        package, *arguments = shlex.split(wanted.command)
    except ValueError as problem:
        raise BadArguments(f"Invalid installation options: command cannot be read ({problem}).") from None
    patterns: dict[str, tuple[re.Pattern[str], str]] = {
        "npm": (_NPM, "@scope/package or package@1.2.3"),
        "pypi": (_PYPI, "package or package==1.2.3"),
        "docker": (_IMAGE, "owner/image:tag"),
    }
    pattern, example = patterns[wanted.kind]
    if len(package) > 214 or not pattern.fullmatch(package):
        raise BadArguments(
            f"Invalid installation options: '{package[:80]}' is not the name of a {wanted.kind} package.",
            hint=f"command begins with {example}; arguments for the server may follow.",
        )
    return package, arguments


async def _launcher(wanted: Wanted, package: str) -> tuple[str, ...]:
    """The command line that starts the package, without arguments for the server."""
    if wanted.kind == "npm":
        _need(wanted, "npx", "Install Node.js.")
        return "npx", "-y", package
    if wanted.kind == "pypi":
        if shutil.which("uvx"):
            return "uvx", package
        _need(wanted, "pipx", "Install uv or pipx.")
        return "pipx", "run", pinned(package)
    _need(wanted, "docker", "Install Docker, or choose an npm or PyPI package.")
    await _need_engine(wanted)
    return container(package, wanted.env)


def pinned(package: str) -> str:
    """A PyPI package as pip writes it: `name==1.2` also where it was given as `name@1.2`."""
    name, at, version = package.partition("@")
    return name if version == "latest" else f"{name}{'==' if at else ''}{version}"


def container(image: str, env: Iterable[str]) -> tuple[str, ...]:
    """The command line that runs an image, with limits on what it may use.

    Variables are passed by name: their values stay out of the command line, which every user can read.
    """
    passed = tuple(part for name in env for part in ("-e", name))
    return "docker", "run", "--rm", "-i", *_LIMITS, *passed, image


def _need(wanted: Wanted, program: str, hint: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(wanted.name, f"'{program}' is not installed here.", hint=hint)


async def _need_engine(wanted: Wanted) -> None:
    process = await asyncio.create_subprocess_exec(
        "docker",
        "version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    running = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(ENGINE_TIMEOUT):
                running = await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await uninterrupted(process.wait())
    if not running:
        raise Unavailable(
            wanted.name, "No Docker engine is running here.", hint="Start it, or choose an npm or PyPI package."
        )
