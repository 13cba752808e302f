"""`wicket top`: what the servers do now, renewed until somebody has seen enough. Reads the audit; starts nothing."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, read
from wicket_mcp.cli.output import apply_style, say_json, table, write

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.store.base import Store

WINDOW = 60.0
"""Seconds that are looked at."""
_MOST_CALLS = 20_000
_FROM_THE_TOP = "\x1b[H\x1b[J"


def top(
    every: Annotated[float, typer.Option("--every", help="Seconds between updates.", min=0.2)] = 2.0,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what servers are doing: calls of the last minute, until Ctrl-C.

    In a pipe, or with --json, it prints once.

    Example: wicket top --every 5
    """
    import asyncio
    from contextlib import suppress

    with suppress(KeyboardInterrupt):
        asyncio.run(_show(read(config), every, json=json))


async def _show(config: "Config", every: float, *, json: bool) -> None:
    import asyncio

    from wicket_mcp.store.open import open_state

    store = await open_state(config)
    live = sys.stdout.isatty() and not json
    try:
        while True:
            facts = await _look(store)
            if json:
                say_json(facts)
            else:
                _print(facts, _FROM_THE_TOP if live else "")
            if not live:
                return
            await asyncio.sleep(every)
    finally:
        await store.close()


async def _look(store: "Store") -> dict[str, Any]:
    from wicket_mcp.calls.activity import by_server
    from wicket_mcp.store.model import AuditQuery

    query = AuditQuery(method="tools/call", since=time.time() - WINDOW, limit=_MOST_CALLS)
    records = [record for record in await store.find_calls(query) if record.server]
    seen = sorted(by_server(records).items(), key=lambda pair: -pair[1].calls)
    return {
        "calls_a_second": round(len(records) / WINDOW, 2),
        "servers": {
            name: {"calls": row.calls, "failed": row.failed, "cached": row.cached, "p50_ms": row.p50, "p95_ms": row.p95}
            for name, row in seen
        },
        "latest": [
            {"tool": f"{record.server}.{record.tool}", "outcome": record.outcome, "by": record.principal}
            for record in records[:8]
        ],
    }


def _print(facts: dict[str, Any], before: str) -> None:
    sys.stdout.write(before)
    write(apply_style(f"{facts['calls_a_second']} calls a second", "bold"), " in the last minute")
    rows = [
        (name, *(str(row[key]) for key in ("calls", "failed", "cached")), _ms(row["p50_ms"]), _ms(row["p95_ms"]))
        for name, row in facts["servers"].items()
    ]
    if rows:
        write()
        table(("server", "calls", "failed", "cached", "median", "95 %"), rows)
        write()
        table(("latest", "outcome", "by"), [(call["tool"], call["outcome"], call["by"]) for call in facts["latest"]])


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"
