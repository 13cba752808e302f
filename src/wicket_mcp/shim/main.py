"""The entry point of `wicket`: `wicket serve` over stdio is the shim, everything else the command line.

The shim handles what a client starts: a plain `serve` with options that it knows, pipes for stdin and stdout, and an
existing configuration. Anything else (`--help`, `--http`, `--no-daemon`, a terminal, a wrong option) goes to the
command line, which is imported only then.
"""

import os
import sys

TYPE_CHECKING = False  # as in relay.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from wicket_mcp.shim.identity import Identity

VALUED = {"--config": "config", "-c": "config", "--dialect": "dialect", "-d": "dialect", "--profile": "profile"}
OFF = "WICKET_NO_DAEMON"


class Options:
    """The command line options of a shim."""

    __slots__ = ("config", "dialect", "profile", "verbose")

    def __init__(self) -> None:
        self.config: list[str] = []
        self.dialect: list[str] = []
        self.profile: list[str] = []
        self.verbose = False


def main() -> None:
    """`wicket`."""
    if (options := read_arguments(sys.argv[1:])) is not None and can_share():
        from wicket_mcp.shim.identity import identify  # not needed by any other verb

        named = options.config[-1] if options.config else ""
        if (identity := identify(named)) is not None:
            sys.exit(run(options, identity))
    from wicket_mcp.cli import main as command_line  # see the module's docstring

    command_line()


def read_arguments(arguments: list[str]) -> "Options | None":
    """The options of a plain `serve` over stdio; None for everything else."""
    if arguments[:1] != ["serve"]:
        return None
    options = Options()
    pending = arguments[1:]
    while pending:
        name, equals, value = pending.pop(0).partition("=")
        if name in ("--verbose", "-v") and not equals:
            options.verbose = True
        elif name in VALUED and (equals or pending):
            getattr(options, VALUED[name]).append(value if equals else pending.pop(0))
        else:
            return None
    return options


def can_share() -> bool:
    """Whether stdin and stdout belong to a client, and a daemon would be useful."""
    if os.name != "posix" or os.environ.get(OFF, "") not in ("", "0") or os.getpid() == 1:
        return False
    try:
        for descriptor in (0, 1, 2):
            os.fstat(descriptor)
    except OSError:
        return False
    return not os.isatty(0)


def run(options: Options, identity: "Identity") -> int:
    """Serve the client; returns the exit status."""
    from wicket_mcp.shim.finding import CannotShare, find_or_start, is_serving, start_own
    from wicket_mcp.shim.identity import identify
    from wicket_mcp.shim.link import ANSWERS_WITHIN, STARTS_WITHIN
    from wicket_mcp.shim.relay import Relay

    first: list[Identity] = [identity]

    def find() -> "tuple[int, str, float] | None":
        """A connection to the daemon of our current identity: the installation or the configuration may have
        changed.
        """
        current = first.pop() if first else identify(identity.named)
        try:
            if current is None:
                return None
            connected = find_or_start(current)
            return connected, current.key, 2 * ANSWERS_WITHIN if is_serving(current) else STARTS_WITHIN
        except CannotShare as problem:
            note(f"the daemon cannot be used ({problem}); serving without it")
            return None

    def key() -> str:
        current = identify(identity.named)
        return current.key if current else ""

    relay = Relay(find, key, lambda: start_own(sys.argv[2:]), make_hello(options), note)
    return relay.run(on_signals(relay.stop))


def make_hello(options: Options) -> bytes:
    """The line that tells a daemon about one client."""
    from wicket_mcp.shim.identity import SEPARATOR

    environ = os.environ
    level = environ.get("WICKET_LOG") or ("debug" if options.verbose else "")
    keys = (environ.get("WICKET_API_KEY", ""), environ.get("MCPLOOKUP_API_KEY", ""))
    fields = ("wicket-shim", "1", *keys, level, "".join(options.profile[-1:]), ",".join(options.dialect))
    return SEPARATOR.join(field.replace("\n", " ") for field in fields).encode("utf-8", "replace") + b"\n"


def note(words: str) -> None:
    """Write a line to stderr; stdout belongs to the protocol."""
    try:
        os.write(2, f"wicket: {words}\n".encode("utf-8", "replace"))
    except OSError:
        pass  # no one reads stderr


def on_signals(stop: "Callable[[int], None]") -> int:
    """Call `stop` on SIGTERM or SIGINT; returns a descriptor that then becomes readable."""
    # The module `signal` loads enum, which takes longer than the rest of our start.
    from _signal import SIGINT, SIGTERM, signal  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    wake, woken = os.pipe()
    os.set_blocking(woken, False)

    def handle(number: int, frame: object) -> None:
        stop(number)
        os.write(woken, b"!")

    for number in (SIGTERM, SIGINT):  # pyright: ignore[reportUnknownVariableType]
        signal(number, handle)
    return wake
