"""`wicket serve` and `wicket status`."""

import asyncio
import os
import sys
from typing import Annotated, Any

import msgspec
import typer

from wicket.app import Gateway, run_until_signalled
from wicket.cli.common import ConfigOption, JsonOption, read, with_gateway
from wicket.cli.output import note, say, say_json
from wicket.config.model import Config
from wicket.errors import ConfigError
from wicket.telemetry import configure_logging


def serve(
    http: Annotated[
        str | None,
        typer.Option("--http", help="Serve HTTP at HOST:PORT (':' for the configured address).", metavar="HOST:PORT"),
    ] = None,
    dialect: Annotated[
        list[str] | None, typer.Option("--dialect", "-d", help="Vocabulary to show; repeatable.")
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no token (loopback only).")] = False,
    config: ConfigOption = None,
) -> None:
    """Serve one client over stdio, or any number over HTTP.

    Example: wicket serve --http 127.0.0.1:8377
    """
    settings = read(config)
    configure_logging(os.environ.get("WICKET_LOG", settings.log_level))
    if http is None:
        _explain_to_a_person()
        asyncio.run(_stdio(settings, dialect or []))
    else:
        asyncio.run(_http(_at(settings, http), dialect or [], no_auth))


def status(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Say what is configured, where state is kept and what is known of each server; starts nothing.

    Example: wicket status --json
    """

    async def work(gateway: Gateway) -> dict[str, Any]:
        seen = await gateway.verbs.servers()
        state = gateway.config.state_path
        return {
            "config": str(gateway.config.path or ""),
            "state": str(state),
            "token_file": str(state / "token"),
            "dialects": list(gateway.config.dialects),
            "servers": {server.name: server.state for server in seen},
            "tools": sum(server.tools or 0 for server in seen),
        }

    facts = with_gateway(config, work)
    if json:
        say_json(facts)
        return
    unseen = [name for name, state in facts["servers"].items() if state == "unseen"]
    facts["dialects"] = ", ".join(facts["dialects"])
    facts["servers"] = f"{len(facts['servers'])}" + (f", never seen: {', '.join(unseen)}" if unseen else "")
    for key, value in facts.items():
        say(f"{key.replace('_', ' '):12} {value}")


async def _stdio(config: Config, dialects: list[str]) -> None:
    async with Gateway.open(config) as gateway:
        await run_until_signalled(lambda stop: gateway.serve_stdio(stop, *dialects))


async def _http(config: Config, dialects: list[str], no_auth: bool) -> None:
    from wicket.surface.guard import load_token

    token, token_file = (None, None) if no_auth else load_token(config.state_path)

    def ready(address: str) -> None:
        where = f"token in {token_file}" if token_file else "no token asked"
        note(f"wicket: serving {len(config.servers)} servers at {address} ({where})")

    async with Gateway.open(config) as gateway:
        await run_until_signalled(lambda stop: gateway.serve_http(stop, *dialects, token=token, on_ready=ready))


def _at(config: Config, address: str) -> Config:
    """`config` with the address given on the command line: HOST:PORT, HOST, :PORT or nothing but a colon."""
    host, _, port = address.rpartition(":") if ":" in address else (address, "", "")
    if port and not port.isdigit():
        raise ConfigError(f"'{address}' is not HOST:PORT", key="--http", hint="For example 127.0.0.1:8377.")
    changed: dict[str, Any] = {}
    if host:
        changed["host"] = host.strip("[]")
    if port:
        changed["port"] = int(port)
    return msgspec.structs.replace(config, http=msgspec.structs.replace(config.http, **changed))


def _explain_to_a_person() -> None:
    if sys.stdin.isatty():
        note(
            "wicket: serving MCP over stdio; a client is meant to start this command, and it now waits for JSON.\n"
            "To look around by hand: wicket servers, wicket search 'a task', wicket serve --http 127.0.0.1:8377. "
            "Ctrl-C leaves."
        )
