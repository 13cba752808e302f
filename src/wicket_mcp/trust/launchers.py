"""Which package a server's command runs, and whether the command fixes its version. Pure.

A launcher that fetches the newest version may run unreviewed code tomorrow: its definitions are held when they change
(`pins.py`), `wicket doctor` reports it, and `wicket pin` fixes the version.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PureWindowsPath
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.config.model.server import ServerConfig

Registry: TypeAlias = Literal["npm", "pypi", "oci"]
Words: TypeAlias = Literal["npm", "pypi", "oci", "uv run", "deno", "go"]
"""How a launcher's arguments are read."""

_LAUNCHERS: dict[str, tuple[tuple[Words, tuple[str, ...]], ...]] = {
    "npx": (("npm", ()),),
    "npm": (("npm", ("exec",)), ("npm", ("x",))),
    "pnpx": (("npm", ()),),
    "pnpm": (("npm", ("dlx",)),),
    "yarn": (("npm", ("dlx",)),),
    "bunx": (("npm", ()),),
    "bun": (("npm", ("x",)),),
    "uvx": (("pypi", ()),),
    "uv": (("pypi", ("tool", "run")), ("uv run", ("run",))),
    "pipx": (("pypi", ("run",)),),
    "dx": (("npm", ()),),
    "deno": (("npm", ("x",)), ("deno", ("run",)), ("deno", ("serve",)), ("deno", ())),
    "go": (("go", ("run",)),),
    "docker": (("oci", ()),),
    "podman": (("oci", ()),),
}
"""The programs that fetch what they run: how their arguments are read, and after which words."""
_REGISTRIES: dict[Words, Registry] = {
    "npm": "npm", "pypi": "pypi", "oci": "oci", "uv run": "pypi", "deno": "npm", "go": "npm"
}  # fmt: skip
_SHELL = re.compile(r"-\w*c|/c|-command|-s|--split-string", re.IGNORECASE)
"""Options of shells, `cmd` and `env` after which one argument is a whole command."""
_SEPARATOR = re.compile(r"[();<>|&]+")
_LOCAL = (".", "/", "~", "file:")
_ENDINGS = (".exe", ".cmd", ".bat", ".ps1")
_EXACT: dict[Registry, re.Pattern[str]] = {
    "npm": re.compile(r"(?:@[^/@]+/)?[^/@:]+@v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"),
    "pypi": re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*(?:===?|@)\s*v?\d[\w.!+-]*"),
}
"""A package with one version: `pkg@1` and `pkg@next` are whatever their registry says today."""
_COMMIT = re.compile(r"[@#][0-9a-f]{40}$")
_FIXED = re.compile(r"(?:jsr:@[^/@]+/[^/@]+|[\w.-]+\.[a-z]+/[^\s@]+)@v?\d+\.\d+\.\d+[\w.+-]*")
"""A version that no owner can replace: of JSR, and of a module of Go."""
_REGISTERED: dict[Registry, re.Pattern[str]] = {
    "npm": re.compile(r"(?:@[\w.~-]+/)?[\w.~-]+(?:@[^/:]*)?"),
    "pypi": re.compile(r"[\w.-]+(?:\[[^\]]*\])?\s*(?:[=<>!~@][^/:]*)?"),
}
"""A package of a registry, not an address of its code."""
_PACKAGE: dict[Words, tuple[str, ...]] = {"npm": ("-p", "--package"), "pypi": ("--from", "--spec")}
"""Options that name the package; the first word is then a command of it."""
_ALONG: dict[Words, tuple[str, ...]] = {"pypi": ("-w", "--with"), "uv run": ("-w", "--with")}
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
_UV_RUN = f"{_PYPI} --extra --no-extra --group --no-group --only-group --package"
_DENO = "-c --config --import-map --lock -L --log-level --cert --location --seed --ext --preload --import"
_GO = "-C -exec -p -mod -modfile -tags -ldflags -gcflags -asmflags -overlay -pgo -pkgdir -toolexec -buildmode -compiler"
_VALUED: dict[Words, frozenset[str]] = {
    "npm": frozenset(_NPM.split()),
    "pypi": frozenset(_PYPI.split()),
    "uv run": frozenset(_UV_RUN.split()),
    "deno": frozenset(_DENO.split()),
    "go": frozenset(_GO.split()),
}
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
    """`--from=` or `npm:`, if the argument starts with it."""
    shell: str = ""
    """The whole argument, if it is a command for a shell."""

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
            return (_COMMIT.search(self.spec) or _FIXED.fullmatch(self.spec)) is not None
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

    def argument(self, spec: str, now: str) -> str | None:
        """The argument `now` with this package instead; None if it stands in a command that is not so simple."""
        if not self.shell:
            return f"{self.option}{spec}"
        before, word, after = now.partition(f"{self.option}{self.spec}")
        is_word = (not before or before[-1] in " '\"=") and (not after or after[0] in " '\";&|)")
        return f"{before}{self.option}{spec}{after}" if word and is_word else None


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


def packages_of(server: ServerConfig) -> list[Package]:
    """Every package that the server's command fetches: `uvx --with a b` fetches two."""
    return list(_find_all((server.command or "", *server.args)))


def package_of(server: ServerConfig) -> Package | None:
    """The package that the server's command fetches, the first without a version if there are several; None if it
    fetches none. A launcher may stand behind other programs (`env`, `cmd /c`, `timeout 9`) or in a shell's command.
    """
    fetched = packages_of(server)
    return next((package for package in fetched if not package.pinned), next(iter(fetched), None))


def _find_all(command: Sequence[str]) -> Iterator[Package]:
    for at, word in enumerate(command):
        for package in _launch(word, command[at + 1 :]):
            yield replace(package, at=package.at + at)
        if at and _SHELL.fullmatch(command[at - 1]) and any(map(str.isspace, word)):
            inner = _split(word)
            launched = (_launch(text, inner[place + 1 :]) for place, text in enumerate(inner))
            yield from (replace(package, at=at - 1, shell=word) for packages in launched for package in packages)


def _split(text: str) -> list[str]:
    """The words of a shell's command."""
    if "\\" in text:  # a path of Windows, rather than an escape
        return text.split()
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quotation mark is missing
        return text.split()


def _launch(launcher: str, args: Sequence[str]) -> Iterator[Package]:
    """What a program fetches, if it is a launcher: positions are those among its arguments."""
    args = args[: next((at for at, text in enumerate(args) if _SEPARATOR.fullmatch(text)), len(args))]
    for words, way in _LAUNCHERS.get(_program(launcher), ()):
        if words == "oci":
            at = _find_image(args)
            if at is not None:
                yield Package(launcher, "oci", args[at], at)
            return
        if (first := _skip(args, 0, way)) is not None:
            yield from _find_fetched(launcher, words, args, first)
            return


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


def _find_fetched(launcher: str, words: Words, args: Sequence[str], at: int) -> Iterator[Package]:
    """The packages that a launcher fetches: those that options name, else its first word. Not what lies in a folder."""
    registry, named = _REGISTRIES[words], False
    while at < len(args):
        text = args[at]
        option, equals, value = text.partition("=")
        if not text.startswith("-"):
            if not named and _is_fetched(words, text):
                prefix = "npm:" if registry == "npm" and text.startswith("npm:") else ""
                yield Package(launcher, registry, text.removeprefix(prefix), at, prefix)
            return
        names, comes_along = option in _PACKAGE.get(words, ()), option in _ALONG.get(words, ())
        if not equals and (names or comes_along or option in _VALUED[words] or _INDEX.fullmatch(option)):
            at += 1
            value = args[at] if at < len(args) else ""
        named = named or names
        if (names or comes_along) and value and not value.startswith(_LOCAL):
            yield Package(launcher, registry, value, at, f"{option}=" if equals else "")
        at += 1


def _is_fetched(words: Words, text: str) -> bool:
    """Whether the first word of a launcher names what it fetches, and not what lies in a folder."""
    if words == "go":
        return "@" in text  # without a version it is this folder's module
    if words in ("uv run", "deno"):
        return text.startswith(("https:", "http:", *(("npm:", "jsr:") if words == "deno" else ())))
    return not text.startswith(_LOCAL)
