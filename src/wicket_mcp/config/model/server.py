"""One server: its options, and the same with its secrets filled in.

Values that may hold a secret stay as the file has them until `secrets.resolve` expands them, just before the
server is started. Neither struct shows such a value in a repr.
"""

from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from wicket_mcp.config.model import auth
from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.config.model.units import Count, Seconds, seconds
from wicket_mcp.config.model.validation import InvalidOption

Transport: TypeAlias = Literal["auto", "stdio", "http", "sse"]
Start: TypeAlias = Literal["lazy", "eager"]
Isolation: TypeAlias = Literal["shared", "session"]
Change: TypeAlias = Literal["hold", "tell", "accept"]
Credentials: TypeAlias = Literal["shared", "user"]

CONNECT = 10.0
DOWNLOAD = 120.0
DOWNLOADERS = frozenset({"npx", "uvx", "uv", "pipx", "bunx", "pnpm", "yarn", "docker", "podman"})
"""Commands that download a server the first time, which takes longer than starting it."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One MCP server behind Wicket: what to start or where to connect, and how to treat it."""

    name: str
    """The id by which tools are named: `[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`."""

    title: Annotated[str, Meta(description="Display name. When empty, the server's id.")] = ""
    description: Annotated[
        str, Meta(description="What the server is for; shown to agents when the server says nothing itself.")
    ] = ""
    tags: Annotated[tuple[str, ...], Meta(description="Words by which servers can be grouped and searched.")] = ()
    enabled: Annotated[bool, Meta(description="Set to `false` to keep the entry but not use it.")] = True

    command: Annotated[
        str | None,
        Meta(description="Program to start (stdio). Exactly one of `command` and `url` is needed."),
    ] = None
    args: Annotated[tuple[str, ...], Meta(description="Arguments of `command`.")] = ()
    env: Annotated[
        dict[str, str],
        Meta(description="Environment variables for `command`, besides the few it inherits (`PATH`, `HOME`, …)."),
    ] = field(default_factory=dict[str, str])
    inherit_env: Annotated[
        tuple[str, ...],
        Meta(description="More variables of Wicket's own environment to pass on if they are set: `KUBECONFIG`, …"),
    ] = ()
    env_file: Annotated[
        str | None,
        Meta(description="File of `NAME=value` lines added to `env`, relative to the config file."),
    ] = None
    cwd: Annotated[str | None, Meta(description="Folder to start `command` in, relative to the config file.")] = None
    url: Annotated[str | None, Meta(description="Address of a remote server.")] = None
    headers: Annotated[dict[str, str], Meta(description="HTTP headers to send to `url`.")] = field(
        default_factory=dict[str, str]
    )
    transport: Annotated[
        Transport,
        Meta(
            description="`stdio` for a command; `http` (Streamable HTTP) or `sse` for an address. "
            "`auto` means `stdio` for a command, and `http`, then `sse`, for an address."
        ),
    ] = "auto"
    required_keys: Annotated[
        tuple[str, ...],
        Meta(description="Environment variables that must be set before the server starts; they are passed on to it."),
    ] = ()

    allowed_tools: Annotated[
        tuple[str, ...],
        Meta(description="Patterns (`*`, `?`) of the tools to offer. An empty list offers none."),
    ] = ("*",)
    denied_tools: Annotated[
        tuple[str, ...], Meta(description="Patterns of tools to hide; wins over `allowed_tools`.")
    ] = ()

    vendor_keys: Annotated[
        bool,
        Meta(
            description="Pass on the keys in `_meta` by which the server's definitions change how one client treats "
            "them (`anthropic/…`)."
        ),
    ] = False
    changed: Annotated[
        Change | None,
        Meta(
            description="What to do when a tool's definition changes: `hold` it until a person approves it, `tell` it "
            "in the log, or `accept` it. By default `hold` for remote addresses and packages without a version, else "
            "`accept`."
        ),
    ] = None
    added: Annotated[
        Change | None,
        Meta(description="The same for tools that the server did not have when it was first seen."),
    ] = None

    timeout: Annotated[Seconds, Meta(gt=0, description="Longest silence of one call; progress restarts it.")] = 60.0
    connect_timeout: Annotated[
        Seconds,
        Meta(
            gt=0,
            description="Longest time to start, connect and complete the handshake. The default is 2 minutes for "
            "commands that may have to download first, such as `npx` and `uvx`.",
        ),
    ] = CONNECT
    max_concurrent: Annotated[Count, Meta(description="Most calls in flight at a time.")] = 32
    calls_per_minute: Annotated[int, Meta(ge=0, description="Most calls in a minute; 0 means no limit.")] = 0
    cache: Annotated[
        dict[str, str],
        Meta(
            description='How long an answer may be given again, by tool: `get_weather = "5m"`. '
            "A pattern (`*`) covers tools that declare themselves read-only."
        ),
    ] = field(default_factory=dict[str, str])
    fallback: Annotated[
        tuple[str, ...],
        Meta(description="Servers to try when a call could not be sent; each needs a tool of the same name."),
    ] = ()
    start: Annotated[Start, Meta(description="Start when first needed (`lazy`) or with Wicket (`eager`).")] = "lazy"
    idle_stop: Annotated[
        Seconds, Meta(description="Stop a server that was not used for this long; 0 never stops it.")
    ] = 600.0
    isolation: Annotated[
        Isolation,
        Meta(description="One connection for all clients (`shared`) or one for each session (`session`)."),
    ] = "shared"

    placement: Annotated[
        Literal["one", "each", "user"],
        Meta(
            description="With replicas and workers: `one` of them runs the command for all, or `each` of them (for a "
            "command without state). With `user`, each user has a separate process on one of them."
        ),
    ] = "one"
    credentials: Annotated[
        Credentials,
        Meta(
            description="Which account is used: the gateway's (`shared`), or that of each user (`user`), with a "
            "separate connection and sign-in."
        ),
    ] = "shared"
    auth: AuthConfig = AuthConfig()

    def __post_init__(self) -> None:
        if not self.title:
            msgspec.structs.force_setattr(self, "title", self.name)
        if self.command is not None and self.transport == "auto":
            msgspec.structs.force_setattr(self, "transport", "stdio")

    @property
    def is_per_user(self) -> bool:
        """Whether every user has their own connection."""
        return self.credentials == "user" or self.placement == "user"

    def connects_like(self, other: "ServerConfig") -> bool:
        """Whether the two differ at most in options that do not affect the connection."""
        return self._connection == other._connection

    @property
    def _connection(self) -> "ServerConfig":
        return msgspec.structs.replace(
            self,
            title="",
            description="",
            tags=(),
            allowed_tools=(),
            denied_tools=(),
            calls_per_minute=0,
            cache={},
            fallback=(),
            start="lazy",
        )

    @property
    def patience(self) -> float:
        """How long it may take to start."""
        downloads = PurePath(self.command or "").stem in DOWNLOADERS
        return DOWNLOAD if downloads and self.connect_timeout == CONNECT else self.connect_timeout

    def __repr__(self) -> str:
        return f"<ServerConfig {self.name} {self.transport}{'' if self.enabled else ' disabled'}>"

    def __rich_repr__(self) -> Any:
        # msgspec's own repr would print every field, including secrets.
        yield self.name
        yield self.transport


class ResolvedServer(Struct, frozen=True, kw_only=True):
    """A server with its secrets filled in, ready to start. Made by `secrets.resolve`, just in time."""

    config: ServerConfig
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    """Every value that was filled in, and every literal value whose name suggests a secret: these must never be
    shown.
    """
    auth: AuthConfig = AuthConfig()

    @property
    def name(self) -> str:
        return self.config.name

    def __repr__(self) -> str:
        return f"<ResolvedServer {self.config.name} {self.config.transport}>"

    def __rich_repr__(self) -> Any:
        yield self.config.name


def check(server: ServerConfig) -> None:
    """Check combinations of options: exactly one way to reach the server must be set. Raises InvalidOption."""
    if server.command is None and server.url is None:
        raise InvalidOption(
            (), "has neither 'command' nor 'url'.", "Give the program to start or the address to connect to."
        )
    if server.command is not None and server.url is not None:
        raise InvalidOption(("url",), "a server has either 'command' or 'url', not both.", "Remove one of them.")
    if server.command is not None and server.transport != "stdio":
        raise InvalidOption(
            ("transport",),
            f"'{server.transport}' does not fit a command.",
            "Use 'stdio', or give a 'url' instead of 'command'.",
        )
    if server.url is not None and server.transport == "stdio":
        raise InvalidOption(("transport",), "'stdio' does not fit a url.", "Use 'http', 'sse' or 'auto'.")
    if server.command is not None and not server.command.strip():
        raise InvalidOption(("command",), "is empty.", "Name the program to start.")
    if server.url is not None and "${" not in server.url and not is_web_address(server.url):
        raise InvalidOption(("url",), "is not a web address.", "It must start with http:// or https://.")
    if server.url is None and server.auth != AuthConfig():
        raise InvalidOption(("auth",), "is for servers with a 'url'.", "A command gets its secrets by 'env'.")
    auth.check(server.auth)
    for name, lifetime in server.cache.items():
        try:
            seconds(lifetime)
        except ValueError as problem:
            raise InvalidOption(("cache", name), f"expected {problem}.") from None
    for name in server.env:
        if not name or "=" in name:
            raise InvalidOption(("env", name), "is not a name that an environment variable can have.", "Rename it.")


def is_web_address(url: str) -> bool:
    scheme, separator, authority = url.partition("://")
    return bool(separator) and scheme.lower() in {"http", "https"} and authority[:1] not in {"", "/"}
