"""What most verbs share: finding the configuration, running against a gateway, and the options for that."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from wicket_mcp.cli.completion import complete_server, complete_tool
from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.cli.root import VERBOSE
from wicket_mcp.errors import ConfigError, UnknownName, WicketError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from wicket_mcp.app import Gateway
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.library import Library
    from wicket_mcp.model import Tool

T = TypeVar("T")
Opened = TypeVar("Opened", bound="Library")

NO_SERVERS = "No servers yet. Add one: wicket add time -- uvx mcp-server-time"

_GARBAGE = 50_000
"""New objects between two searches for garbage. Nearly all that a command reads stays to its end, so that looking
through it after every few hundred objects finds nothing and takes a third of the reading."""


def _verbose(ctx: typer.Context, verbose: bool) -> bool:
    ctx.meta[VERBOSE] = verbose
    return verbose


ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration: wicket.toml or any MCP client's file.", show_default=False),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VerboseOption: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_verbose, help="Show logs, and errors in full.")
]
ServerArgument: TypeAlias = Annotated[str, typer.Argument(help="A server's name.", autocompletion=complete_server)]
ToolArgument: TypeAlias = Annotated[
    str,
    typer.Argument(help="The tool: server.tool, or just tool if only one server has it.", autocompletion=complete_tool),
]


def read(path: Path | None, *, serving: bool = False) -> "Config":
    """The configuration that this command is about.

    One that was found in the folder needs its owner's yes, which is asked for on a terminal. Without it the user's own
    is used. Raises ConfigError if there is none, but not while `serving`: then it is the client that must be told.
    """
    from wicket_mcp.config.read.formats import fall_back, load
    from wicket_mcp.config.read.locate import find_config, is_found

    file = find_config(path)
    in_folder = is_found(file, path)
    config = load(file, discovered=in_folder)
    if not config.untrusted:
        return config
    if serving:
        return fall_back(config)
    from wicket_mcp.cli.trust import ask

    if ask(file):
        return load(file, discovered=in_folder)
    own = fall_back(config)
    if own.untrusted:
        raise ConfigError(own.untrusted, hint=f"To do so: wicket trust {file}")
    note(f"wicket: {own.notes[-1]}")
    return own


def with_gateway(
    path: Path | None, work: "Callable[[Gateway], Awaitable[T]]", *, verbose: bool = False, names_notes: bool = True
) -> T:
    """Run `work` against a gateway of its own; no server needs to be running, and none starts unasked."""
    from wicket_mcp.app import Gateway

    return _run(path, Gateway.open, work, verbose=verbose, names_notes=names_notes)


def for_user(path: Path | None, work: "Callable[[Gateway], Awaitable[T]]", *, verbose: bool = False) -> T:
    """`with_gateway` for a verb that uses tools: it acts for whoever WICKET_API_KEY belongs to, where that is set."""

    async def act(gateway: "Gateway") -> T:
        await gateway.act_for_key()
        return await work(gateway)

    return with_gateway(path, act, verbose=verbose)


def with_library(
    path: Path | None, work: "Callable[[Library], Awaitable[T]]", *, verbose: bool = False, asks: bool = False
) -> T:
    """`with_gateway` for a verb that only looks for tools, and waits for nothing else to load.

    One that `asks` has no bar of progress, which would draw over its questions.
    """
    return _run(path, _library, work, verbose=verbose, asks=asks)


async def record_act(library: "Library", principal: str, act: str, detail: str, *, server: str = "") -> None:
    """Record an administrative act, also for the programs that read the audit."""
    from wicket_mcp.calls.audit import Audit
    from wicket_mcp.store.audit_file import AuditFile

    audit, file = Audit(library.store.record_call), AuditFile(library.config)
    audit.listen(file.record)
    audit.act(principal, act, detail, server=server)
    audit.flush()
    await file.close()


@asynccontextmanager
async def _library(config: "Config") -> "AsyncGenerator[Library]":
    # Servers that were added count too, and the registry knows them, as it knows whose a key is.
    if config.allow_runtime_servers or os.environ.get("WICKET_API_KEY"):
        from wicket_mcp.app import Gateway

        async with Gateway.open(config) as gateway:
            await gateway.act_for_key()
            yield gateway
        return
    from wicket_mcp.library import Library
    from wicket_mcp.store.open import open_state

    store = await open_state(config)
    try:
        library = Library(config, store)
        try:
            yield library
        finally:
            await library.close()
    finally:
        await store.close()


def _run(
    path: Path | None,
    opened: "Callable[[Config], AbstractAsyncContextManager[Opened]]",
    work: "Callable[[Opened], Awaitable[T]]",
    *,
    verbose: bool,
    names_notes: bool = True,
    asks: bool = False,
) -> T:
    import asyncio
    import gc
    from contextlib import nullcontext

    import msgspec

    from wicket_mcp.cli.progress import progress
    from wicket_mcp.telemetry.log import configure_logging

    gc.set_threshold(_GARBAGE)
    config = read(path)
    lazy = tuple(msgspec.structs.replace(server, start="lazy") for server in config.servers)
    configure_logging(os.environ.get("WICKET_LOG", "info" if verbose else "critical"))
    if names_notes and verbose:
        for text in config.notes:
            note(f"wicket: {text}")

    async def run() -> T:
        async with (
            opened(msgspec.structs.replace(config, servers=lazy)) as room,
            nullcontext() if asks else progress(room),
        ):
            return await work(room)

    try:
        return asyncio.run(run())
    except UnknownName as problem:
        raise explain_unknown(problem, config) from None


def explain_unknown(problem: WicketError, config: "Config") -> WicketError:
    """A name that is not known because its server is disabled, or because there is none, says so."""
    if not isinstance(problem, UnknownName) or problem.kind not in ("server", "tool"):
        return problem
    if not config.servers and (problem.kind == "tool" or not problem.hint):  # with a hint it is the registry's
        return UnknownName(problem.kind, problem.name, hint=NO_SERVERS)
    name = problem.name.lower()
    for server in config.servers:
        own = server.name.lower()
        if not server.enabled and (name == own or name.startswith((f"{own}.", f"{own}__"))):
            is_toml = config.path is not None and config.path.suffix == ".toml"
            remedy = f"wicket enable {server.name}" if is_toml else f"enable it in {config.path}"
            return ConfigError(f"Server '{server.name}' is disabled: {remedy}")
    return problem


def name_absence(library: "Library") -> bool:
    """Say what to do where there is no server to ask; whether that is so."""
    if library.catalogue.servers:
        return False
    note("Every server is disabled. Use one again: wicket enable NAME" if library.config.servers else NO_SERVERS)
    return True


def duration(text: str | None, option: str) -> float | None:
    """Seconds of what was given to `option`, such as 90d; None when nothing was."""
    from wicket_mcp.config.model.units import seconds

    if text is None:
        return None
    try:
        return seconds(text)
    except ValueError as problem:
        raise typer.BadParameter(f"expected {problem}", param_hint=option) from None


def tell(value: Any, words: str, *, json: bool) -> None:
    """An answer: the value for programs, or the words for people."""
    if json:
        say_json(value)
    else:
        say(words)


def name_failures(failures: dict[str, str], *, verbose: bool = False) -> None:
    """Say which servers are missing from an answer, so that a missing tool is never a silent one."""
    from wicket_mcp.catalog.failures import STILL_STARTING, summarize_failure

    causes: list[str] = []
    if starting := [name for name, problem in failures.items() if problem == STILL_STARTING]:
        note(f"wicket: still starting, and not searched: {', '.join(starting)}. To wait for all: wicket servers")
    for name, problem in failures.items():
        if name in starting:
            continue
        if problem.startswith(f"Server '{name}' needs sign-in"):
            note(f"wicket: {problem if verbose else problem.partition(chr(10))[0]}")
        elif verbose:
            note(f"wicket: server '{name}' could not be listed: {problem}")
        else:
            causes.append(f"{name} ({summarize_failure(name, problem)})")
    if causes:
        note(f"wicket: unavailable: {', '.join(causes)}. What to do: wicket doctor")


def tool_as_json(tool: "Tool") -> dict[str, Any]:
    return {"server": tool.server, "key": tool.key, **tool.definition}
