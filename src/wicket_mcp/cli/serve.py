"""`wicket serve`: one client over stdio, or any number over HTTP."""

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from wicket_mcp.cli.common import ConfigOption, VerboseOption, read
from wicket_mcp.cli.output import note
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from wicket_mcp.config.model.config import Config


class OptionalAddress(TyperCommand):
    """Lets `--http` stand alone: the configured address. Typer has no options with an optional value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _fill_address(args))


COMMAND = OptionalAddress


def _fill_address(arguments: list[str]) -> list[str]:
    """The arguments with ':' after each `--http` that no value follows."""
    filled: list[str] = []
    for argument, following in pairwise([*arguments, "-"]):
        filled += [argument, ":"] if argument == "--http" and following.startswith("-") else [argument]
    return filled


def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            help="Serve HTTP, at HOST:PORT, HOST or PORT if given, otherwise at the configured address.",
            metavar="[HOST:PORT]",
        ),
    ] = None,
    dialect: Annotated[
        list[str] | None, typer.Option("--dialect", "-d", help="Dialect (set of tools) to show; repeatable.")
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Serve only what [profiles.NAME] shows.")] = None,
    no_daemon: Annotated[
        bool, typer.Option("--no-daemon", help="Serve in this process, not in the daemon that clients share (stdio).")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Number of processes that serve HTTP; SIGHUP replaces them one by one.", min=1),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", help="Serve /metrics at HOST:PORT too, without a token.", metavar="HOST:PORT"),
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Require no token (loopback only).")] = False,
    print_clients: Annotated[
        bool,
        typer.Option("--print-clients", help="Print the address, the token and what to paste into clients (HTTP)."),
    ] = False,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Serve one client over stdio, or any number over HTTP.

    Example: wicket serve --http 127.0.0.1:8377 --print-clients
    """
    import asyncio

    from wicket_mcp.telemetry.log import configure_logging

    if print_clients and http is None:
        raise typer.BadParameter("over stdio, stdout belongs to the client; add --http", param_hint="--print-clients")
    if workers is not None and http is None:
        raise typer.BadParameter("is for HTTP; add --http", param_hint="--workers")
    if metrics is not None and http is None:
        raise typer.BadParameter("is for HTTP; add --http", param_hint="--metrics")
    settings = read(config, serving=True)
    level = os.environ.get("WICKET_LOG") or ("debug" if verbose else None)

    def apply_log_level(config: "Config") -> None:
        configure_logging(level or config.log_level)

    apply_log_level(settings)
    if settings.untrusted:
        note(f"wicket: {settings.untrusted}")
    _log_notes(settings)
    if profile is not None:
        dialect = [_profile(settings, profile)]
    if http is None:
        asyncio.run(_stdio(settings, dialect or [], apply_log_level))
    else:
        settings = _at(settings, http)
        try:
            if workers is None:
                named = [] if dialect is None else dialect
                place = None if metrics is None else _at(settings, metrics, "--metrics").http
                beside = None if place is None else (place.host, place.port)
                work = _http(settings, named, apply_log_level, beside, no_auth=no_auth, print_clients=print_clients)
            else:
                work = _workers(settings, workers, no_auth=no_auth, print_clients=print_clients)
            asyncio.run(work)
        except ConfigError as problem:
            raise _blame_option(problem, http) from None


def _profile(config: "Config", name: str) -> str:
    """What stands for a profile among the names of dialects. Raises ConfigError."""
    from wicket_mcp.rooms import profile_name
    from wicket_mcp.spelling import nearest

    known = [profile.name for profile in config.profiles]
    if name not in known:
        near = nearest(name, known) or known
        hint = f"Known: {', '.join(near)}." if near else "Write [profiles.NAME] in wicket.toml first."
        raise ConfigError(f"there is no profile '{name}'", key="--profile", hint=hint)
    return profile_name(name)


async def _stdio(config: "Config", dialects: list[str], reloaded: "Callable[[Config], None]") -> None:
    from wicket_mcp.app import Gateway
    from wicket_mcp.process import collect_seldom, run_until_signalled

    async def serve_client(stop: "asyncio.Event") -> None:
        _explain_to_a_person()
        async with Gateway.open(config) as gateway:
            gateway.on_reload.append(reloaded)
            collect_seldom()
            await gateway.serve_stdio(stop, *dialects)

    await run_until_signalled(serve_client)


async def _http(
    config: "Config",
    dialects: list[str],
    reloaded: "Callable[[Config], None]",
    metrics: "tuple[str, int] | None",
    *,
    no_auth: bool,
    print_clients: bool,
) -> None:
    from wicket_mcp.app import Gateway
    from wicket_mcp.process import collect_seldom, run_until_signalled
    from wicket_mcp.surface.owner_token import load_token
    from wicket_mcp.surface.server import inherit_listener
    from wicket_mcp.workers import Inherited

    inherited = Inherited.take()
    listener = inherited.listener if inherited else inherit_listener()
    workers = inherited.folder if inherited else None
    token, token_file = (None, None) if no_auth else load_token(config.state_path)

    def ready(address: str) -> None:
        if inherited is not None:
            inherited.say_ready()
        else:
            _announce(config, address, token, token_file, print_clients=print_clients)

    async def serve_clients(stop: "asyncio.Event") -> None:
        async with Gateway.open(config) as gateway:
            gateway.on_reload.append(reloaded)
            collect_seldom()
            await gateway.serve_http(
                stop, *dialects, token=token, on_ready=ready, listener=listener, workers=workers, metrics=metrics
            )

    await run_until_signalled(serve_clients)


async def _workers(config: "Config", count: int, *, no_auth: bool, print_clients: bool) -> None:
    from wicket_mcp.process import run_until_signalled
    from wicket_mcp.surface.guard import check_exposure
    from wicket_mcp.surface.owner_token import load_token
    from wicket_mcp.surface.server import address_of, inherit_listener, listen
    from wicket_mcp.workers import Master

    token, token_file = (None, None) if no_auth else load_token(config.state_path)
    check_exposure(config.http, authenticated=token is not None)
    listener = inherit_listener() or listen(config.http.host, config.http.port)
    address = f"{address_of(listener)}/mcp"

    async def keep_workers(stop: "asyncio.Event") -> None:
        def ready() -> None:
            _announce(config, address, token, token_file, print_clients=print_clients)

        master = Master(_arguments_of_worker(sys.argv[2:]), listener, count, config.http.leave_after)
        await master.run(stop, ready)

    with listener:
        await run_until_signalled(keep_workers)


def _arguments_of_worker(arguments: list[str]) -> list[str]:
    """Those of `wicket serve`, without what is the master's business."""
    passed: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument == "--workers":
            pending.pop(0)
        elif not argument.startswith("--workers=") and argument != "--print-clients":
            passed.append(argument)
    return passed


def _announce(
    config: "Config", address: str, token: str | None, token_file: Path | str | None, *, print_clients: bool
) -> None:
    """Say where we serve, and what to paste into clients."""
    where = f"token in {token_file}" if token_file else "no token asked"
    count = sum(server.enabled for server in config.servers)
    note(f"wicket: serving {count} server{'' if count == 1 else 's'} at {address} ({where})")
    if print_clients:
        from wicket_mcp.cli.snippets import page

        sys.stdout.write(f"{page(address, token, config.path)}\n")


def _at(config: "Config", address: str, option: str = "--http") -> "Config":
    """`config` with the address given on the command line: HOST:PORT, HOST, PORT, :PORT or nothing but a colon."""
    import msgspec

    alone = ("", "", address) if _is_number(address) else (address, "", "")
    host, _, port = address.rpartition(":") if ":" in address else alone
    if port and not _is_number(port):
        raise ConfigError(f"'{address}' is not HOST:PORT.", key=option, hint="For example 127.0.0.1:8377.")
    if port and int(port) > 65535:
        raise ConfigError(f"{port} is not a port: they go from 0 to 65535.", key=option, hint="For example 8377.")
    changed: dict[str, Any] = {}
    if host:
        changed["host"] = host.strip("[]")
    if port:
        changed["port"] = int(port)
    return msgspec.structs.replace(config, http=msgspec.structs.replace(config.http, **changed))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _blame_option(problem: ConfigError, address: str) -> ConfigError:
    """A problem with the address, attributed to the command line if the address came from there."""
    if problem.key not in ("http.host", "http.port") or address == ":":
        return problem
    return ConfigError(problem.message.removeprefix(f"{problem.key}: "), key="--http", hint=problem.hint)


def _log_notes(config: "Config") -> None:
    import logging

    for text in config.notes:
        logging.getLogger("wicket_mcp.config").warning("%s: %s", config.path, text)


def _explain_to_a_person() -> None:
    if sys.stdin.isatty():
        note(
            "wicket: this serves MCP over stdio and now waits for a client's JSON; a client is meant to start it.\n"
            "By hand, try instead:\n"
            "  wicket search 'a task'                         find a tool\n"
            "  wicket serve --http --print-clients            serve HTTP, and print what to paste into a client\n"
            "  wicket import                                  see which clients have servers to import\n"
            "Ctrl-C ends it."
        )
