"""Which package a server's command runs, and whether the command fixes its version. Pure.

A launcher that fetches the newest version may run unreviewed code tomorrow: its definitions are held when they change
(`pins.py`), `wicket doctor` reports it, and `wicket pin` fixes the version.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal, TypeAlias

import msgspec

from wicket_mcp.config.model.server import ServerConfig

Registry: TypeAlias = Literal["npm", "pypi", "oci"]

_LAUNCHERS: dict[str, Registry] = {
    "npx": "npm",
    "bunx": "npm",
    "pnpx": "npm",
    "uvx": "pypi",
    "pipx": "pypi",
    "docker": "oci",
    "podman": "oci",
}
_SUBCOMMANDS = ("run", "dlx", "tool")
_VERSION = re.compile(r".@(?!latest$)[^@/]+$|==")
_ALONE = frozenset(
    (
        *("-i", "-t", "-d", "-P", "-q", "--rm", "--init", "--privileged", "--read-only", "--detach", "--interactive"),
        *("--tty", "--publish-all", "--quiet", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--help"),
        "--disable-content-trust",
    )
)
"""Options of `docker run` that take no value, besides those of several letters (`-it`)."""


class Package(msgspec.Struct, frozen=True):
    """What a launcher fetches: the argument that names it, and its position."""

    launcher: str
    registry: Registry
    spec: str
    at: int

    @property
    def name(self) -> str:
        """The name without its version."""
        if self.registry == "pypi":
            return re.split(r"[=<>!~@\[]", self.spec)[0]
        head, at, _ = self.spec.rpartition("@")
        return head if at and head else self.spec

    @property
    def pinned(self) -> bool:
        if self.registry == "oci":
            return "@sha256:" in self.spec  # a tag can be moved by its owner
        return _VERSION.search(self.spec) is not None

    @property
    def requirement(self) -> str:
        """The spelling of the registry's own tools: `uvx` also accepts `name@version`."""
        if self.registry != "pypi" or "@" not in self.spec:
            return self.spec
        name, _, version = self.spec.partition("@")
        return name if version == "latest" else f"{name}=={version}"

    def pin(self, version: str) -> str:
        """The argument with this version."""
        if self.registry == "oci":
            return f"{self.spec.partition('@')[0]}@{version}"
        return f"{self.name}{'==' if self.registry == 'pypi' else '@'}{version}"


def _find_image(args: Sequence[str]) -> int | None:
    """The position of the image among the arguments of `docker run`: the first that belongs to no option."""
    at = next((at for at, text in enumerate(args) if text == "run"), len(args)) + 1
    while at < len(args):
        text = args[at]
        if not text.startswith("-"):
            return at
        alone = text in _ALONE or "=" in text or (text[:2] != "--" and set(text[1:]) <= set("itdPq"))
        at += 1 if alone else 2
    return None


def package_of(server: ServerConfig) -> Package | None:
    """The package that the server's command fetches; None if it fetches none."""
    launcher = server.command or ""
    registry = _LAUNCHERS.get(PurePath(launcher).name)
    if registry is None:
        return None
    if registry == "oci":
        at = _find_image(server.args)
        return Package(launcher, registry, server.args[at], at) if at is not None else None
    plain = [(at, text) for at, text in enumerate(server.args) if not text.startswith("-")]
    at, spec = next(((at, text) for at, text in plain if text not in _SUBCOMMANDS), (0, ""))
    return None if not spec or spec.startswith((".", "/")) else Package(launcher, registry, spec, at)
