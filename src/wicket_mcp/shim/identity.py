"""Which clients share a daemon: those of the same user, installation, configuration, folder and environment.

Of the environment that means what a gateway and its servers can see: the variables that every server inherits, those
that steer Wicket and Python, and every one whose name stands anywhere in the configuration file. Clients that differ in
one of them have different daemons; a daemon is given these variables and no others, so nothing else can mix.
What belongs to one client alone (API key, dialects, log level) is not part of it and is sent when it connects.
"""

import os
import sys

import wicket_mcp

TYPE_CHECKING = False  # typing and collections take longer to load than everything here together
if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_NAME = "wicket.toml"
FOUND_NAMES = (CONFIG_NAME, ".mcp.json")
SEPARATOR = "\x1f"
"""Between the fields of the line with which a connection to a daemon begins."""
LARGEST_CONFIG = 16 * 1024 * 1024

SHARED = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
    | {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}
    | {"DBUS_SESSION_BUS_ADDRESS", "OPENBLAS_NUM_THREADS"}
)
"""What servers inherit (`upstream/stdio.py`; `TERM` is not among them here, for a daemon has no terminal), and where
files, certificates and the keyring are."""
PREFIXES = ("WICKET_", "PYTHON", "OTEL_")
SUFFIXES = ("_PROXY", "_proxy")
PERSONAL = frozenset({"WICKET_API_KEY", "MCPLOOKUP_API_KEY", "WICKET_LOG", "WICKET_NO_DAEMON"})
"""What a client tells when it connects, or what concerns its own start."""
PASSING = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "TERM", "COLUMNS", "LINES"})
"""What a shell changes from one command to the next. It counts only where the configuration names it."""


class Identity:
    """What a client shares with those who may use the same daemon. `key` says it all; the rest is how to start one."""

    __slots__ = ("config", "environment", "folder", "key", "named")

    def __init__(self, named: str, config: str, environment: dict[str, str]) -> None:
        """`named` is what `--config` said; empty where it said nothing."""
        self.named = named
        self.config = config
        self.environment = environment
        self.folder = runtime_folder()
        self.key = _digest(
            [
                str(os.getuid()),
                installation(),
                sys.executable,
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
    """Who we are; None where no configuration can be read, or the folder we are in is gone."""
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
    """The file that `config/read/locate.py` finds; None where that would say what is wrong."""
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
    """The platform's folder for Wicket's configuration, as platformdirs has it."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/wicket")
    home = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return os.path.join(home or os.path.expanduser("~/.config"), "wicket")


def runtime_folder() -> str:
    """Where the sockets of a user's daemons are: short, local and private."""
    if folder := os.environ.get("WICKET_RUNTIME_DIR"):
        return folder
    if folder := os.environ.get("XDG_RUNTIME_DIR"):
        return f"{folder}/wicket"
    return f"{os.environ.get('TMPDIR', '/tmp').rstrip('/')}/wicket-{os.getuid()}"  # noqa: S108  (checked to be ours)


def installation() -> str:
    """Version, place and time of the installed package: another one has daemons of its own."""
    file = wicket_mcp.__file__
    status = os.stat(file)
    return f"{file} {status.st_mtime_ns} {status.st_ino} {status.st_size}"


def visible(environ: "Mapping[str, str]", text: bytes) -> dict[str, str]:
    """The variables that a gateway with this configuration, or a server of its, could see."""
    # `${input:api-key}` stands for API_KEY; and who may add servers while we run may refer to anything.
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
    """Whether `word` stands in the text, not as a part of a longer one."""
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
