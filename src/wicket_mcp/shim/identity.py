"""Which clients share a daemon: those of the same user, installation, configuration, folder and environment.

The environment here means what a gateway and its servers can see: the variables that every server inherits, those that
configure Wicket and Python, and every variable that the configuration file names. Clients that differ in one of them
have different daemons; a daemon gets only these variables, so nothing else can leak between clients. Settings of a
single client (API key, dialects, log level) are not part of it and are sent when it connects.
"""

import os
import sys

import wicket_mcp
from wicket_mcp.interpreter import PYTHON

TYPE_CHECKING = False  # typing and collections take longer to load than everything here together
if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_NAME = "wicket.toml"
FOUND_NAMES = (CONFIG_NAME, ".mcp.json")
SEPARATOR = "\x1f"
"""Separates the fields of the first line of a connection to a daemon."""
LARGEST_CONFIG = 16 * 1024 * 1024

SHARED = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
    | {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}
    | {"DBUS_SESSION_BUS_ADDRESS", "HF_HOME", "OPENBLAS_NUM_THREADS"}
)
"""What servers inherit (`upstream/stdio.py`; without `TERM`, because a daemon has no terminal), and the locations of
files, certificates, models for the search and the keyring."""
PREFIXES = ("WICKET_", "PYTHON", "OTEL_")
SUFFIXES = ("_PROXY", "_proxy")
PERSONAL = frozenset({"WICKET_API_KEY", "MCPLOOKUP_API_KEY", "WICKET_LOG", "WICKET_NO_DAEMON"})
"""What a client sends when it connects, or what concerns only its own start."""
PASSING = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "TERM", "COLUMNS", "LINES"})
"""What a shell changes from one command to the next. It counts only if the configuration names it."""


class Identity:
    """What clients of the same daemon have in common. `key` identifies it; the rest is needed to start one."""

    __slots__ = ("config", "environment", "folder", "key", "named")

    def __init__(self, named: str, config: str, environment: dict[str, str]) -> None:
        """`named` is the value of `--config`; empty if it was not given."""
        self.named = named
        self.config = config
        self.environment = environment
        self.folder = runtime_folder()
        self.key = _digest(
            [
                str(os.getuid()),
                installation(),
                PYTHON,
                named,
                config,
                os.getcwd(),
                *(part for name in sorted(environment) for part in (name, environment[name])),
            ]
        )

    def path(self, ending: str) -> str:
        """A file of this daemon: its `sock`, `lock`, `log` or `json`."""
        return f"{self.folder}/{self.key}.{ending}"


def identify(named: str) -> "Identity | None":
    """Our identity; None if no configuration can be read, or the current folder is gone."""
    try:
        config = find_config(named)
        if config is None:
            return None
        file = os.open(config, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = b""
            while len(text) < LARGEST_CONFIG and (piece := os.read(file, 1 << 20)):
                text += piece
        finally:
            os.close(file)
        return Identity(named, config, visible(os.environ, text))
    except OSError:
        return None


def find_config(named: str) -> "str | None":
    """The file that `config/read/locate.py` finds; None if that would report an error."""
    cwd = os.getcwd()
    named = named or os.environ.get("WICKET_CONFIG", "")
    if named:
        path = os.path.join(cwd, os.path.expanduser(named))
        return path if os.path.isfile(path) else None
    candidates = [os.path.join(cwd, name) for name in FOUND_NAMES]
    for path in (*candidates, os.path.join(config_folder(), CONFIG_NAME)):
        if os.path.isfile(path):
            return path
    return None


def config_folder() -> str:
    """The platform's folder for Wicket's configuration, as in platformdirs."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/wicket")
    home = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return os.path.join(home or os.path.expanduser("~/.config"), "wicket")


def runtime_folder() -> str:
    """The folder of a user's daemon sockets: short, local and private."""
    if folder := os.environ.get("WICKET_RUNTIME_DIR"):
        return folder
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return f"{folder}/wicket"
    return f"{os.environ.get('TMPDIR', '/tmp').rstrip('/')}/wicket-{os.getuid()}"  # noqa: S108  (checked to be ours)


def installation() -> str:
    """Version, location and time of the installed package: another installation has its own daemons."""
    file = wicket_mcp.__file__
    status = os.stat(file)
    return f"{file} {status.st_mtime_ns} {status.st_ino} {status.st_size}"


def visible(environ: "Mapping[str, str]", text: bytes) -> dict[str, str]:
    """The variables that a gateway with this configuration, or one of its servers, could see."""
    # `${input:api-key}` means API_KEY; and if servers can be added at run time, they may refer to anything.
    plain = bytes(byte if chr(byte).isalnum() else 95 for byte in text.upper()) if b"${input:" in text else b""
    all_of_it = b"allow_runtime_servers" in text
    return {
        name: value
        for name, value in environ.items()
        if name not in PERSONAL
        and (
            name in SHARED
            or name.startswith(PREFIXES)
            or name.endswith(SUFFIXES)
            or (all_of_it and name not in PASSING)
            or _has_word(text, name.encode("utf-8", "surrogateescape"))
            or (plain and name not in PASSING and name.upper().encode("utf-8", "surrogateescape") in plain)
        )
    }


def _has_word(text: bytes, word: bytes) -> bool:
    """Whether `word` occurs in the text as a whole word."""
    at = text.find(word)
    while at >= 0:
        after = text[at + len(word) : at + len(word) + 1]
        if not _in_word(text[at - 1 : at] if at else b"") and not _in_word(after):
            return True
        at = text.find(word, at + 1)
    return False


def _in_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_"


def _digest(parts: list[str]) -> str:
    # hashlib loads OpenSSL, which takes as long as the rest of our start.
    from _blake2 import blake2b  # pyright: ignore[reportMissingImports]

    digest = blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
