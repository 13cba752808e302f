"""`wicket logs`: the audit, as it was kept and as it happens. Reads the state; starts nothing."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, VerboseOption, duration, read
from wicket_mcp.cli.completion import complete_server, complete_tool
from wicket_mcp.cli.output import apply_style, note, write
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.store.base import Store
    from wicket_mcp.store.model import AuditQuery, CallRecord

_LOOK_EVERY = 0.5
_PAGE = 1000
_AGAIN = 1000
"""Positions that are read again each time: if several gateways write, an earlier one may be there later."""


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new records until Ctrl-C.")] = False,
    server: Annotated[
        str, typer.Option("--server", help="Only what concerns this server.", autocompletion=complete_server)
    ] = "",
    tool: Annotated[
        str, typer.Option("--tool", help="Only this tool: server.tool, or tool.", autocompletion=complete_tool)
    ] = "",
    outcome: Annotated[
        str,
        typer.Option("--outcome", help="Only this outcome (ok, error, denied, …), or 'failed' for every failure."),
    ] = "",
    since: Annotated[str | None, typer.Option("--since", help="How far back, such as 10m, 2h or 7d.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many of the latest records to show.")] = 50,
    config: ConfigOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each record.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """Show who called what, with what outcome.

    Includes failed authentications, denials and administrative acts, of every process that uses the same state.

    Example: wicket logs --outcome failed --since 2h
    """
    import asyncio
    from contextlib import suppress

    from wicket_mcp.store.model import AuditQuery

    past = duration(since, "--since")
    owner, dot, name = tool.partition(".")
    query = AuditQuery(
        server=server or (owner if dot else ""),
        tool=name if dot else tool,
        outcome=outcome,
        since=time.time() - past if past is not None else 0.0,
        limit=limit,
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(_show(read(config), query, follow=follow, json=json))


async def _show(config: "Config", query: "AuditQuery", *, follow: bool, json: bool) -> None:
    from wicket_mcp.store.open import open_state

    store = await open_state(config)
    try:
        records = (await store.find_calls(query))[::-1]
        for record in records:
            _print(record, json=json)
        if not records and not follow:
            note("No such records yet." if query.since or query.outcome or query.server else "Nothing was called yet.")
        if follow:
            await _follow(store, query, records, json=json)
    finally:
        await store.close()


async def _follow(store: "Store", query: "AuditQuery", seen: "list[CallRecord]", *, json: bool) -> None:
    import asyncio

    from msgspec.structs import replace

    from wicket_mcp.store.model import AuditQuery

    first = max((record.id for record in seen), default=0)
    if not seen:
        first = max((record.id for record in await store.find_calls(AuditQuery(limit=1))), default=0)
    last = first
    printed: set[int] = set()
    while True:
        after = max(first, last - _AGAIN)
        page = replace(query, after=after, since=0.0, newest_first=False, limit=_AGAIN + _PAGE)
        for record in await store.find_calls(page):
            if record.id not in printed:
                printed.add(record.id)
                last = max(last, record.id)
                _print(record, json=json)
        printed = {number for number in printed if number > last - _AGAIN}
        await asyncio.sleep(_LOOK_EVERY)


def _print(record: "CallRecord", *, json: bool) -> None:
    from wicket_mcp.store.audit_file import estimate_tokens, line_of
    from wicket_mcp.store.records import SUCCESSES, is_call

    if json:
        write(line_of(record))
        return
    moment = datetime.fromtimestamp(record.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    target = f"{record.server}.{record.tool}" if record.server and is_call(record) else record.tool
    method = "" if record.method == "tools/call" else f"{record.method} "
    caller = f"{record.principal} ({record.client})" if record.client else record.principal
    colour = "green" if record.outcome in SUCCESSES else "red"
    spent = f"{record.duration_ms:8.1f} ms" if record.duration_ms else " " * 11
    tokens = f" {estimate_tokens(record.arguments_bytes)}→{estimate_tokens(record.result_bytes)} tokens"
    script = f" script {record.run}" if record.run else ""
    detail = f": {record.detail.splitlines()[0]}" if record.detail else ""
    rule = f" [{record.rule}]" if record.rule else ""
    write(
        apply_style(moment, "dim"),
        f" {spent} ",
        apply_style(f"{record.outcome:14}", colour),
        " ",
        apply_style(f"{method}{target}", "bold"),
        clean(f" by {caller}{script}{tokens if record.duration_ms else ''}{rule}{detail}").replace("\n", " "),
    )
