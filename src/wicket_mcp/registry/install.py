"""The command line that starts a package with its package manager, from a checked name and arguments.

A name that could be anything else (a path, an address, an option, shell syntax) is rejected, no shell is involved, and
no text from a package or registry gets into the command.
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
from wicket_mcp.tasks import run_uninterrupted
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
class InstallRequest:
    """A request to install a server."""

    name: str
    kind: Kind
    command: str
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


async def prepare(request: InstallRequest, rules: EgressRules) -> ServerConfig:
    """How the server is started or reached. Raises BadArguments, Denied, or Unavailable if a program is missing."""
    _check(request)
    if request.kind == "remote":
        rules.check_url(request.command)
        return ServerConfig(name=request.name, url=request.command)
    package, arguments = _split(request)
    command, *leading = await _launcher(request, package)
    return ServerConfig(
        name=request.name,
        command=command,
        args=(*leading, *arguments),
        env=dict(request.env),
        connect_timeout=DOWNLOAD_TIMEOUT,
    )


def _check(request: InstallRequest) -> None:
    problems: list[str] = []
    if not is_valid(request.name) or "." in request.name:
        problems.append("name takes letters, digits, '-' and '_'")
    if not request.command.strip():
        problems.append("command is empty")
    if "${" in request.command:
        problems.append("command may not refer to secrets; put them into env")
    if request.kind == "remote" and request.env:
        problems.append("a remote server takes no env")
    problems += [f"'{name[:40]}' is not a variable name" for name in request.env if not _VARIABLE.fullmatch(name)]
    if problems:
        raise BadArguments(f"Invalid installation options: {'; '.join(problems)}.")


def _split(request: InstallRequest) -> tuple[str, list[str]]:
    try:
        package, *arguments = shlex.split(request.command)
    except ValueError as problem:
        raise BadArguments(f"Invalid installation options: command cannot be read ({problem}).") from None
    patterns: dict[str, tuple[re.Pattern[str], str]] = {
        "npm": (_NPM, "@scope/package or package@1.2.3"),
        "pypi": (_PYPI, "package or package==1.2.3"),
        "docker": (_IMAGE, "owner/image:tag"),
    }
    pattern, example = patterns[request.kind]
    if len(package) > 214 or not pattern.fullmatch(package):
        raise BadArguments(
            f"Invalid installation options: '{package[:80]}' is not the name of a {request.kind} package.",
            hint=f"command begins with {example}; arguments for the server may follow.",
        )
    return package, arguments


async def _launcher(request: InstallRequest, package: str) -> tuple[str, ...]:
    """The command line that starts the package, without arguments for the server."""
    if request.kind == "npm":
        _need(request, "npx", "Install Node.js.")
        return "npx", "-y", package
    if request.kind == "pypi":
        if shutil.which("uvx"):
            return "uvx", package
        _need(request, "pipx", "Install uv or pipx.")
        return "pipx", "run", pin(package)
    _need(request, "docker", "Install Docker, or choose an npm or PyPI package.")
    await _need_engine(request)
    return container(package, request.env)


def pin(package: str) -> str:
    """A PyPI package in pip's format: `name==1.2`, even if given as `name@1.2`."""
    name, at, version = package.partition("@")
    return name if version == "latest" else f"{name}{'==' if at else ''}{version}"


def container(image: str, env: Iterable[str], engine: str = "docker") -> tuple[str, ...]:
    """The command line that runs an image, with limits on what it may use.

    Variables are passed by name: their values stay out of the command line, which every user can see.
    """
    passed = tuple(part for name in env for part in ("-e", name))
    return engine, "run", "--rm", "-i", *_LIMITS, *passed, image


def _need(request: InstallRequest, program: str, hint: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(request.name, f"'{program}' is not installed here.", hint=hint)


async def _need_engine(request: InstallRequest) -> None:
    process = await asyncio.create_subprocess_exec(
        "docker",
        "version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
    )
    running = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(ENGINE_TIMEOUT):
                running = await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await run_uninterrupted(process.wait())
    if not running:
        raise Unavailable(
            request.name, "No Docker engine is running here.", hint="Start it, or choose an npm or PyPI package."
        )
