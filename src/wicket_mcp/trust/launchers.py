"""Which package a server's command runs, and whether it says which version. Pure.

A launcher that fetches whatever is newest runs tomorrow what nobody has looked at today: its definitions are held when
they change (`pins.py`), `wicket doctor` names it, and `wicket pin` writes the version down.
"""

import re
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
_TAG = re.compile(r":(?!latest$)[\w.-]+$")


class Package(msgspec.Struct, frozen=True):
    """What a launcher fetches: the argument that names it, and where that argument stands."""

    registry: Registry
    spec: str
    at: int

    @property
    def name(self) -> str:
        """Without its version."""
        if self.registry == "pypi":
            return re.split(r"[=<>!~@\[]", self.spec)[0]
        head, at, _ = self.spec.rpartition("@")
        return head if at and head else self.spec

    @property
    def pinned(self) -> bool:
        if self.registry == "oci":
            return "@sha256:" in self.spec or _TAG.search(self.spec) is not None
        return _VERSION.search(self.spec) is not None

    @property
    def requirement(self) -> str:
        """As the registry's own tools spell it: `uvx` also takes `name@version`."""
        if self.registry != "pypi" or "@" not in self.spec:
            return self.spec
        name, _, version = self.spec.partition("@")
        return name if version == "latest" else f"{name}=={version}"

    def pin(self, version: str) -> str:
        """The argument with this version."""
        if self.registry == "oci":
            return f"{self.spec.removesuffix(':latest')}:{version}"
        return f"{self.name}{'==' if self.registry == 'pypi' else '@'}{version}"


def package_of(server: ServerConfig) -> Package | None:
    """The package that the server's command fetches; None where it fetches none."""
    registry = _LAUNCHERS.get(PurePath(server.command or "").name)
    if registry is None:
        return None
    if registry == "oci":
        images = [(at, text) for at, text in enumerate(server.args) if "/" in text and text[:1] not in "-/."]
        return Package(registry, images[-1][1], images[-1][0]) if images else None
    plain = [(at, text) for at, text in enumerate(server.args) if not text.startswith("-")]
    at, spec = next(((at, text) for at, text in plain if text not in _SUBCOMMANDS), (0, ""))
    return None if not spec or spec.startswith((".", "/")) else Package(registry, spec, at)
