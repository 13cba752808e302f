"""Every option of Wicket, each declared once: name, type, default and help.

Frozen structs; the options of a server are in `server`. A field that carries a description is an option of
`wicket.toml`: the checker, the JSON Schema, docs/configuration.md and the CLI's help are all generated from these
declarations, so a new option is one line and a new section is one struct and one field of `Config`. `formats` reads
files.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct, field

from wicket_mcp.config.model import server
from wicket_mcp.config.model.auth import OauthConfig
from wicket_mcp.config.model.options import build
from wicket_mcp.config.model.policy import PolicyConfig
from wicket_mcp.config.model.profile import ProfileConfig
from wicket_mcp.config.model.profile import check as check_profile
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.config.model.search import SearchConfig
from wicket_mcp.config.model.server import ResolvedServer, ServerConfig, is_web_address
from wicket_mcp.config.model.sign_in import AuthorizationConfig, IssuerConfig
from wicket_mcp.config.model.units import Bytes, Count, Seconds
from wicket_mcp.config.model.validation import InvalidOption, render_path
from wicket_mcp.config.read import layouts, locate
from wicket_mcp.config.read.favourites import Favourite
from wicket_mcp.errors import ConfigError

__all__ = [
    "AuditConfig",
    "AuthorizationConfig",
    "Config",
    "HttpConfig",
    "IssuerConfig",
    "LimitsConfig",
    "MetaConfig",
    "OauthConfig",
    "PolicyConfig",
    "ProfileConfig",
    "RegistryConfig",
    "ResolvedServer",
    "ResultsConfig",
    "SearchConfig",
    "ServerConfig",
    "TraceConfig",
    "VaultConfig",
]

Dialect: TypeAlias = Literal["native", "flat", "lua", "meta", "chain", "broker", "bridge"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

RATES = {"discovery": 100, "registration": 10, "health": 1000, "invocation": 0}


class HttpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wicket serve --http`: where it listens and who may use it."""

    host: Annotated[str, Meta(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8377
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Further names in the `Host` header to answer. Loopback names always are, and any IP address "
            "is if `host` is `0.0.0.0` or `::`."
        ),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...], Meta(description="Web origins (`https://app.example`) whose pages may call Wicket.")
    ] = ()
    max_body: Annotated[Bytes, Meta(gt=0, description="Largest request body to accept.")] = 4 * 1024**2
    leave_after: Annotated[
        Seconds,
        Meta(description="Time to keep listening after a request to stop, until a load balancer has read `/readyz`."),
    ] = 0.0
    public_url: Annotated[
        str | None,
        Meta(description="Where clients reach Wicket from outside (`https://wicket.example`), without `/mcp`."),
    ] = None
    issuers: Annotated[
        tuple[IssuerConfig, ...], Meta(description="Identity providers whose tokens are accepted; see below.")
    ] = ()
    authorization: AuthorizationConfig = AuthorizationConfig()


class LimitsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for each server."""

    max_message: Annotated[Bytes, Meta(gt=0, description="Largest message to take from a server.")] = 16 * 1024**2
    max_call: Annotated[Seconds, Meta(gt=0, description="Longest a call may take, even with progress.")] = 300.0
    max_tools: Annotated[Count, Meta(description="Most tools to take from one server.")] = 5000


class ResultsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Large results: when they are stored, and for how long."""

    large: Annotated[Count, Meta(description="Tokens above which a result is stored and summarised.")] = 8000
    keep: Annotated[Seconds, Meta(description="How long a stored result can be read.")] = 86400.0
    max_bytes: Annotated[Bytes, Meta(description="Most space for stored results; the oldest go first.")] = 256 * 1024**2


class AuditConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit: who did what, with what outcome. Kept for 30 days in the state folder (`wicket logs`)."""

    file: Annotated[
        str | None,
        Meta(
            description="File to which every record is appended as a line of JSON, for other programs; or the address "
            "of an OTLP collector over HTTP, which gets every record as a log record."
        ),
    ] = None
    arguments: Annotated[bool, Meta(description="Write whole arguments to `file`, with secrets masked.")] = False


class TraceConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces and durations for an OpenTelemetry collector."""

    endpoint: Annotated[
        str | None,
        Meta(
            description="Address of an OTLP collector over HTTP: `http://127.0.0.1:4318`. Exports nothing if not set."
        ),
    ] = None
    percent: Annotated[int, Meta(ge=0, le=100, description="How many of the traces that begin here are kept.")] = 100
    content: Annotated[bool, Meta(description="Make arguments and results of tools part of the spans.")] = False


class MetaConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `meta` dialect."""

    upper: Annotated[bool, Meta(description="Show tool names in upper snake case (`GLOBAL_QUOTE`).")] = False


class RegistryConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The registry of servers: who may read it, how often, and which addresses it may reach."""

    public: Annotated[bool, Meta(description="Let everyone read the registry over HTTP without a key.")] = False
    rates: Annotated[
        dict[str, int],
        Meta(description="Requests an hour for each API key, by kind; 0 means no limit."),
    ] = field(default_factory=lambda: dict(RATES))
    allowed_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Private addresses, networks or host names that `invoke_tool`, installed remote servers and "
            "proofs of ownership may reach."
        ),
    ] = ()
    resolvers: Annotated[
        tuple[str, ...], Meta(description="DNS resolvers for proofs of ownership. The system's when empty.")
    ] = ()
    probe_every: Annotated[
        Seconds, Meta(description="Time between two health probes of a server in use; 0 never probes.")
    ] = 60.0

    def __post_init__(self) -> None:
        # A file that sets one limit means only that one: the others keep their defaults.
        msgspec.structs.force_setattr(self, "rates", {**RATES, **self.rates})


class VaultConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where credentials that Wicket was given are kept, encrypted."""

    key: Annotated[
        Literal["file", "keyring"],
        Meta(
            description="What holds the key: `vault.key` in the state folder, or the system's keyring. "
            "The variable `WICKET_VAULT_KEY`, if set, takes precedence over both. With `store`, it also seals what "
            "clients carry (sessions, tasks, handles of results); without, `sealing.key` in the state folder does."
        ),
    ] = "file"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user configured."""

    servers: tuple[ServerConfig, ...] = ()
    """In the order of the file."""
    profiles: tuple[ProfileConfig, ...] = ()

    dialects: Annotated[tuple[Dialect, ...], Meta(description="Dialects (sets of tools) that agents see.")] = (
        "native",
    )
    dotted_names: Annotated[
        bool, Meta(description="Show tool names with dots (`broker.search`) if a dialect has them.")
    ] = False
    unprefixed: Annotated[
        bool,
        Meta(description="Pass the names and addresses of a single server unchanged (dialect `flat`)."),
    ] = False
    vendor_keys: Annotated[
        bool, Meta(description="Mark Wicket's own tools for clients that read more than the protocol (Claude Code).")
    ] = True
    state_dir: Annotated[
        str | None,
        Meta(description="Folder for Wicket's database and token. The platform's state folder when not set."),
    ] = None
    store: Annotated[
        str | None,
        Meta(
            description="Database that replicas share: `postgresql://user@host/database`, a password in it as "
            "`${WICKET_DB_PASSWORD}`. A file in `state_dir` when not set."
        ),
    ] = None
    shared_limits: Annotated[
        str | None,
        Meta(description="Redis or Valkey in which replicas count limits together: `redis://host:6379/0`."),
    ] = None
    allow_runtime_servers: Annotated[
        bool, Meta(description="Let administrators add servers while Wicket runs (`bridge`, `chain`).")
    ] = False
    aliases: Annotated[dict[str, str], Meta(description='Short names for tools: `commit = "git.git_commit"`.')] = field(
        default_factory=dict[str, str]
    )
    log_level: Annotated[LogLevel, Meta(description="Lowest level of messages to log (to stderr).")] = "info"

    http: HttpConfig = HttpConfig()
    limits: LimitsConfig = LimitsConfig()
    results: ResultsConfig = ResultsConfig()
    scripts: Limits = Limits()
    search: SearchConfig = SearchConfig()
    audit: AuditConfig = AuditConfig()
    meta: MetaConfig = MetaConfig()
    trace: TraceConfig = TraceConfig()
    registry: RegistryConfig = RegistryConfig()
    policy: PolicyConfig = PolicyConfig()
    vault: VaultConfig = VaultConfig()
    oauth: OauthConfig = OauthConfig()

    path: Path | None = None
    """The file this was read from."""
    discovered: bool = False
    """Whether the file was found in the current folder rather than named by the user: it needs the user's approval."""
    untrusted: str = ""
    """Why the file is not used; empty if it is."""
    favourites: tuple[Favourite, ...] = ()
    """The tools to show by name, from the files beside it."""
    notes: tuple[str, ...] = ()
    """What the file asked for that was interpreted differently or ignored; for the log and `wicket doctor`."""

    @property
    def base_dir(self) -> Path:
        """The folder that relative paths in the configuration start from."""
        return self.path.absolute().parent if self.path else Path.cwd()

    @property
    def state_path(self) -> Path:
        """The folder for Wicket's state; not created here."""
        if self.state_dir is None:
            return locate.state_folder()
        return self.base_dir / Path(self.state_dir).expanduser()

    @property
    def audit_path(self) -> Path | None:
        """The file that the audit is appended to, if one is configured."""
        file = self.audit.file
        return self.base_dir / Path(file).expanduser() if file and not is_web_address(file) else None

    @property
    def audit_collector(self) -> str:
        """The collector that the audit is sent to; empty if none is configured."""
        return self.audit.file if self.audit.file and is_web_address(self.audit.file) else ""

    def __repr__(self) -> str:
        return f"<Config {self.path or 'in memory'}: {len(self.servers)} servers>"

    def __rich_repr__(self) -> Any:
        yield repr(self)

    @classmethod
    def empty(cls) -> "Config":
        """The defaults, without servers."""
        return cls()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Config":
        """The same content as a file would have, in Wicket's layout or a client's. Raises ConfigError."""
        try:
            return cls.from_outline(layouts.translate(data, "object"))
        except InvalidOption as problem:
            raise ConfigError(problem.message, key=render_path(problem.path), hint=problem.hint) from None

    @classmethod
    def from_outline(cls, outline: layouts.Outline, path: Path | None = None) -> "Config":
        """The checked configuration for a file's outline. Raises InvalidOption."""
        servers = tuple(_servers(outline))
        options = {key: value for key, value in outline.options.items() if key != "profiles"}
        profiles = tuple(_profiles(outline.options.get("profiles", {}), outline.lenient))
        listed = isinstance(options.get("policy"), list)  # [[policy]]: only the rules
        try:
            return build(
                cls,
                {**options, "policy": {"rules": options["policy"]}} if listed else options,
                lenient=outline.lenient,
                beside=("servers", "profiles"),
                servers=servers,
                profiles=profiles,
                path=path,
                notes=tuple(outline.notes),
            )
        except InvalidOption as problem:
            if listed and problem.path[:2] == ("policy", "rules"):
                problem = InvalidOption(("policy", *problem.path[2:]), problem.message, problem.hint)
            raise outline.relocate(problem) from None


def _profiles(tables: Any, lenient: bool) -> Iterator[ProfileConfig]:
    if not isinstance(tables, Mapping):
        raise InvalidOption(("profiles",), "expected a table for each profile.", "Write [profiles.NAME] above it.")
    for name, values in cast("Mapping[str, Any]", tables).items():
        try:
            if not isinstance(values, Mapping):
                raise InvalidOption((), "expected a table.", f"Write [profiles.{name}] above its options.")
            profile = build(ProfileConfig, dict(cast("Mapping[str, Any]", values)), lenient=lenient, name=name)
            check_profile(profile)
        except InvalidOption as problem:
            path = ("profiles", name, *problem.path)
            raise InvalidOption(path, problem.message, problem.hint) from None
        yield profile


def _servers(outline: layouts.Outline) -> list[ServerConfig]:
    """The servers; in another program's file an invalid one is noted and skipped, if others remain."""
    servers: list[ServerConfig] = []
    problems: list[tuple[str, InvalidOption]] = []
    for draft in outline.servers:
        try:
            servers.append(_server(draft, outline.lenient))
        except InvalidOption as problem:
            problems.append((draft.name, problem))
    if problems and not (outline.lenient and servers):
        raise problems[0][1]
    outline.notes += [
        f"'{name}' is left out: {render_path(problem.path)}: {problem.message} {problem.hint}".strip()
        for name, problem in problems
    ]
    return servers


def _server(draft: layouts.Draft, lenient: bool) -> ServerConfig:
    try:
        config = build(ServerConfig, draft.values, lenient=lenient, name=draft.name)
        server.check(config)
    except InvalidOption as problem:
        raise draft.relocate(problem) from None
    return config
