"""`wicket tokens`: what the user's own servers cost an agent, with and without Wicket."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, name_failures, with_gateway
from wicket_mcp.cli.output import bar_width, explain, note, say, say_json, styled, write
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.cli.ledger import Ledger

_BAR = 28
_EIGHTHS = " ▏▎▍▌▋▊▉"


def tokens(
    top: Annotated[int, typer.Option("--top", min=0, max=100, help="How many of the heaviest tools to show.")] = 10,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Count what your tools cost an agent in tokens.

    As a flat list, and through Wicket; by server, and the heaviest tools.

    Example: wicket tokens --top 5
    """

    async def work(gateway: "Gateway") -> "Ledger":
        from wicket_mcp.cli.ledger import ledger

        return await ledger(gateway, top)

    found = with_gateway(config, work, verbose=verbose)
    if json:
        say_json(_as_json(found))
    else:
        _print(found)
    if not found.exact:
        note("≈ is an estimate (4 characters a token). To count exactly: pip install 'wicket-mcp[tokens]'")
    name_failures(found.failures, verbose=verbose)


def _print(found: "Ledger") -> None:
    mark = "" if found.exact else "≈"
    if not found.tools:
        say("No tools are known yet.")
        return
    rows = [
        (f"All {found.tools:,} tools as a flat list", found.flat),
        ("Wicket's menu and instructions", found.menu + found.instructions),
        ("… and one task found and called", found.flow),
    ]
    _bars("In the prompt", rows, mark)
    saved = 100 * (1 - found.flow / found.flat) if found.flat > found.flow else 0.0
    explain(f"{saved:.1f} % less for a task, before the tool's own arguments and answer (searched: {found.query!r}).")
    _bars("By server", list(found.servers.items()), mark)
    if found.heaviest:
        _bars("Heaviest tools", found.heaviest, mark)


def _bars(title: str, rows: list[tuple[str, int]], mark: str) -> None:
    write("\n" if title != "In the prompt" else "", styled(title, "bold"))
    names = max(len(name) for name, _ in rows)
    numbers = max(len(f"{mark}{number:,}") for _, number in rows)
    largest = max(number for _, number in rows) or 1
    width = bar_width(names + numbers + 6, _BAR)
    for name, number in rows:
        shown = f"{mark}{number:,}".rjust(numbers)
        write(clean(f"  {name.ljust(names)}  {shown}  "), styled(_bar(number / largest, width), "cyan"))


def _bar(share: float, width: int) -> str:
    """A bar of `share` of the full `width`; plain characters where the output cannot show blocks."""
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return "#" * round(share * width)
    whole, part = divmod(round(share * width * 8), 8)
    return ("█" * whole + _EIGHTHS[part]).strip() or "▏"


def _as_json(found: "Ledger") -> dict[str, Any]:
    return {
        "exact": found.exact,
        "tokenizer": "o200k_base" if found.exact else "characters / 4",
        "tools": found.tools,
        "flat": found.flat,
        "menu": found.menu,
        "instructions": found.instructions,
        "search": found.search,
        "call": found.call,
        "flow": found.flow,
        "query": found.query,
        "servers": found.servers,
        "heaviest": [{"tool": name, "tokens": number} for name, number in found.heaviest],
    }
