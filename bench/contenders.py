"""Who is measured, on which route, and how each is started.

A route says what stands in front and behind: `HTTP -> stdio` is a client over HTTP and an upstream on pipes. Behind
every contender stands the same echo server. Wicket runs as users run it: `wicket serve`, token and argument checks on.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import environments
from clients import Client, HttpClient, Program, StdioClient
from machine import free_port
from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

PEERS = Path(__file__).parent / "peers"
ECHO = (sys.executable, str(PEERS / "echo.py"))
SERVER = "server"
ERAS = {"legacy": False, "modern": True}
HTTP_STDIO, STDIO_STDIO, HTTP_HTTP = ROUTES = ("HTTP -> stdio", "stdio -> stdio", "HTTP -> HTTP")


@dataclass
class Contender:
    """Something that answers calls of the echo tool."""

    route: str
    name: str
    client: Client
    program: Program | StdioClient
    native: bool = False
    """Whether upstream tools are reached through `call_tool`."""
    call: JsonObject = field(default_factory=dict[str, object])
    """The parameters of the call that is measured; known once it runs."""

    @property
    def title(self) -> str:
        return f"{self.route}: {self.name}"


@dataclass
class Field:
    """All contenders, the programs they share, and who is missing."""

    contenders: list[Contender] = field(default_factory=list[Contender])
    programs: list[Program] = field(default_factory=list[Program])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    before: str = ""
    peers: bool = True

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """The Wickets to measure, by name."""
        ours = {"wicket": (sys.executable, "-m", "wicket_mcp")}
        return {**ours, "before": (self.before,)} if self.before else ours


def gather(folder: Path, routes: Sequence[str] = ROUTES, *, before: str = "", peers: bool = True) -> Field:
    """The contenders of these routes. Nothing runs yet; `folder` holds their configurations, state and logs.

    `before` is the `wicket` command of an earlier version, measured beside this one; without `peers`, only we are.
    """
    everybody = Field(before=before, peers=peers)
    if HTTP_STDIO in routes or HTTP_HTTP in routes:
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        direct = Program((*ECHO, "http", str(port)), folder / "echo.log")
        everybody.programs.append(direct)
        behind = {HTTP_STDIO: _Behind(folder, "pipes", (*ECHO, "stdio")), HTTP_HTTP: _Behind(folder, "http", (url,))}
        for route in (route for route in behind if route in routes):
            everybody.contenders.append(Contender(route, "direct", HttpClient(port), direct))
            _http_front(everybody, route, behind[route])
    if STDIO_STDIO in routes:
        _stdio_front(everybody, _Behind(folder, "stdio", (*ECHO, "stdio")))
    return everybody


@dataclass(frozen=True)
class _Behind:
    """The upstream of a route: a command, or one URL."""

    folder: Path
    name: str
    target: tuple[str, ...]

    @property
    def is_url(self) -> bool:
        return self.target[0].startswith("http")

    def log(self, contender: str) -> Path:
        return self.folder / f"{contender}-{self.name}.log"

    def wicket_config(self, copy: str = "") -> Path:
        return write_wicket_config(self.folder / f"wicket-{self.name}{copy}", {SERVER: self.target})

    def fastmcp_target(self) -> str:
        if self.is_url:
            return self.target[0]
        return str(write_mcp_servers(self.folder / f"fastmcp-{self.name}.json", {SERVER: self.target}))


def _http_front(everybody: Field, route: str, behind: _Behind) -> None:
    def add(name: str, command: Sequence[str], **ways: HttpClient) -> None:
        program = Program(command, behind.log(name))
        everybody.programs.append(program)
        for way, client in ways.items():
            client.program = program
            native = way.startswith("native")
            everybody.contenders.append(Contender(route, f"{name} {way.replace('_', ' ')}", client, program, native))

    port = free_port()
    floor = (sys.executable, str(PEERS / "floor.py"), "http", str(port), "--", *behind.target)
    add("floor", floor, legacy=HttpClient(port))

    for name, version in everybody.versions.items():
        port, config = free_port(), behind.wicket_config(f"-{name}")
        token = config.parent / "state" / "token"
        ways = {
            f"{dialect}_{era}": HttpClient(port, f"/mcp/{dialect}", modern=modern, token_file=token)
            for dialect in ("flat", "native")
            for era, modern in ERAS.items()
        }
        add(name, (*version, "serve", "--config", str(config), "--http", f"127.0.0.1:{port}"), **ways)
    if not everybody.peers:
        return

    for python in _program(everybody, "fastmcp", "python"):
        port = free_port()
        command = (python, str(PEERS / "fastmcp_proxy.py"), "http", str(port), behind.fastmcp_target())
        add("fastmcp", command, **{era: HttpClient(port, modern=modern) for era, modern in ERAS.items()})

    for program in () if behind.is_url else _program(everybody, "mcp-proxy", "mcp-proxy"):
        port = free_port()
        command = (program, "--port", str(port), "--log-level", "ERROR", "--", *behind.target)
        add("mcp-proxy", command, legacy=HttpClient(port))


def _stdio_front(everybody: Field, behind: _Behind) -> None:
    def add(name: str, command: Sequence[str], *, modern: bool = False, native: bool = False) -> None:
        client = StdioClient(command, behind.log(name.replace(" ", "-")), modern=modern)
        everybody.contenders.append(Contender(STDIO_STDIO, name, client, client, native))

    add("direct", behind.target)
    add("floor legacy", (sys.executable, str(PEERS / "floor.py"), "stdio", "--", *behind.target))
    for name, version in everybody.versions.items():
        for dialect in ("flat", "native"):
            for era, modern in ERAS.items():
                config = behind.wicket_config(f"-{name}-{dialect}-{era}")
                command = (*version, "serve", "--config", str(config), "--dialect", dialect)
                add(f"{name} {dialect} {era}", command, modern=modern, native=dialect == "native")
    if not everybody.peers:
        return
    for python in _program(everybody, "fastmcp", "python"):
        for era, modern in ERAS.items():
            command = (python, str(PEERS / "fastmcp_proxy.py"), "stdio", behind.fastmcp_target())
            add(f"fastmcp {era}", command, modern=modern)


def _program(everybody: Field, environment: str, name: str) -> Iterator[str]:
    """The program, once; nothing where its environment cannot be made, and the reason is kept."""
    if environment in everybody.missing:
        return
    try:
        yield environments.program(environment, name)
    except environments.Missing as problem:
        everybody.missing[environment] = str(problem)


def wicket_serve(config: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "wicket_mcp", "serve", "--config", str(config))


def write_wicket_config(folder: Path, servers: Mapping[str, Sequence[str]]) -> Path:
    """A wicket.toml for these servers (a command, or one URL), with its state beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['state_dir = "state"', 'log_level = "warning"']
    for name, target in servers.items():
        lines.append(f"[servers.{name}]")
        if target[0].startswith("http"):
            lines.append(f"url = {_quoted(target[0])}")
        else:
            lines.append(f"command = {_quoted(target[0])}\nargs = [{', '.join(map(_quoted, target[1:]))}]")
    path = folder / "wicket.toml"
    path.write_text("\n".join(lines), "utf-8")
    return path


def write_mcp_servers(path: Path, servers: Mapping[str, Sequence[str]]) -> Path:
    """The same as an `mcpServers` file."""
    entries = {
        name: {"url": target[0]} if target[0].startswith("http") else {"command": target[0], "args": [*target[1:]]}
        for name, target in servers.items()
    }
    path.write_bytes(encode({"mcpServers": entries}))
    return path


def _quoted(text: str) -> str:
    return encode(text).decode()
