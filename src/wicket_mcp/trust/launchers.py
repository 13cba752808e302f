"""Which package a server's command runs, and whether the command fixes its version. Pure.

A launcher that fetches the newest version may run unreviewed code tomorrow: its definitions are held when they change
(`pins.py`), `wicket doctor` reports it, and `wicket pin` fixes the version.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PureWindowsPath
from typing import Literal, TypeAlias

import msgspec

from wicket_mcp.config.model.server import ServerConfig

Registry: TypeAlias = Literal["npm", "pypi", "oci"]

_LAUNCHERS: dict[str, tuple[Registry, tuple[tuple[str, ...], ...]]] = {
    "npx": ("npm", ((),)),
    "npm": ("npm", (("exec",), ("x",))),
    "pnpx": ("npm", ((),)),
    "pnpm": ("npm", (("dlx",),)),
    "yarn": ("npm", (("dlx",),)),
    "bunx": ("npm", ((),)),
    "bun": ("npm", (("x",),)),
    "uvx": ("pypi", ((),)),
    "uv": ("pypi", (("tool", "run"),)),
    "pipx": ("pypi", (("run",),)),
    "docker": ("oci", ((),)),
    "podman": ("oci", ((),)),
}
"""The programs that fetch what they run: from where, and after which words."""
_LOCAL = (".", "/", "~", "file:")
_ENDINGS = (".exe", ".cmd", ".bat", ".ps1")
_EXACT: dict[Registry, re.Pattern[str]] = {
    "npm": re.compile(r"(?:@[^/@]+/)?[^/@:]+@v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"),
    "pypi": re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*(?:===?|@)\s*v?\d[\w.!+-]*"),
}
"""A package with one version: `pkg@1` and `pkg@next` are whatever their registry says today."""
_COMMIT = re.compile(r"[@#][0-9a-f]{40}$")
_REGISTERED: dict[Registry, re.Pattern[str]] = {
    "npm": re.compile(r"(?:@[\w.~-]+/)?[\w.~-]+(?:@[^/:]*)?"),
    "pypi": re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*(?:[=<>!~@][^/:]*)?"),
}
"""A package of a registry, not an address of its code."""
_PACKAGE: dict[Registry, tuple[str, ...]] = {"npm": ("-p", "--package"), "pypi": ("--from", "--spec")}
"""Options that name the package; the first word is then a command of it."""
_ALONG: dict[Registry, tuple[str, ...]] = {"npm": (), "pypi": ("-w", "--with")}
"""Options that name a package that is fetched with it."""
_NPM = (
    "-w --workspace -C --dir --prefix --cache --registry --userconfig --loglevel --node-options --script-shell "
    "--reporter --cwd"
)
_PYPI = (
    "-p --python -i -f --find-links --with-editable "
    "--with-requirements -c --constraints -b --build-constraints --overrides --env-file --directory --project "
    "--config-file --cache-dir --resolution --prerelease --fork-strategy --exclude-newer --link-mode --color "
    "--keyring-provider -P --upgrade-package --refresh-package --reinstall-package -C "
    "--config-setting --no-build-package --no-binary-package --allow-insecure-host --python-platform "
    "--torch-backend --pip-args --suffix"
)
_VALUED: dict[Registry, frozenset[str]] = {"npm": frozenset(_NPM.split()), "pypi": frozenset(_PYPI.split())}
"""Other options that take the next argument as their value."""
_INDEX = re.compile(r"--(default-|extra-)?index(-\w+)?")
"""Options that say where packages come from; they take a value too."""
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
    option: str = ""
    """`--from=`, if the argument starts with it."""

    @property
    def name(self) -> str:
        """The name without its version, with its extras."""
        if self.registry == "pypi":
            return re.split(r"[=<>!~@]", self.spec)[0].strip()
        head, at, _ = self.spec.rpartition("@")
        return head if at and head else self.spec

    @property
    def is_address(self) -> bool:
        """Whether it names where the code lies (`git+https://…`, `github:a/b`), not a package of a registry."""
        return self.registry != "oci" and _REGISTERED[self.registry].fullmatch(self.spec) is None

    @property
    def pinned(self) -> bool:
        """Whether it is the same code tomorrow: an exact version, the digest of an image, a commit."""
        if self.registry == "oci":
            return "@sha256:" in self.spec  # a tag can be moved by its owner
        if self.is_address:
            return _COMMIT.search(self.spec) is not None
        return _EXACT[self.registry].fullmatch(self.spec) is not None

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
    """The package that the server's command fetches, the first without a version if there are several; None if it
    fetches none.
    """
    launcher, args, start = server.command or "", server.args, 0
    if _program(launcher) == "cmd":
        start = next((at for at, text in enumerate(args, 1) if text.lower() == "/c"), len(args)) + 1
        launcher = args[start - 1] if start <= len(args) else ""
    registry, ways = _LAUNCHERS.get(_program(launcher), ("npm", ()))
    if registry == "oci":
        at = _find_image(args)
        return Package(launcher, registry, args[at], at) if at is not None else None
    first = next((at for way in ways if (at := _skip(args, start, way)) is not None), None)
    fetched = [] if first is None else list(_find_fetched(launcher, registry, args, first))
    return next((package for package in fetched if not package.pinned), next(iter(fetched), None))


def _program(command: str) -> str:
    """The name of a program, without a folder and an ending of Windows."""
    name = PureWindowsPath(command).name.lower()
    return name[:-4] if name.endswith(_ENDINGS) else name


def _skip(args: Sequence[str], at: int, words: tuple[str, ...]) -> int | None:
    """The position after these words, before which only options may stand; None if they are not there."""
    first = at
    while tuple(args[at : at + len(words)]) != words:
        is_option = at < len(args) and args[at].startswith("-")
        if not is_option and (at in (first, len(args)) or not args[at - 1].startswith("-")):
            return None
        at += 1
    return at + len(words)


def _find_fetched(launcher: str, registry: Registry, args: Sequence[str], at: int) -> Iterator[Package]:
    """The packages that a launcher fetches: those that options name, else its first word. Not what lies in a folder."""
    named = False
    while at < len(args):
        text = args[at]
        option, equals, value = text.partition("=")
        if not text.startswith("-"):
            if not named and not text.startswith(_LOCAL):
                yield Package(launcher, registry, text, at)
            return
        names, comes_along = option in _PACKAGE[registry], option in _ALONG[registry]
        if not equals and (names or comes_along or option in _VALUED[registry] or _INDEX.fullmatch(option)):
            at += 1
            value = args[at] if at < len(args) else ""
        named = named or names
        if (names or comes_along) and value and not value.startswith(_LOCAL):
            yield Package(launcher, registry, value, at, f"{option}=" if equals else "")
        at += 1
