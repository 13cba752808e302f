"""`wicket tokens`: what the user's own servers cost an agent, with and without Wicket."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, name_failures, with_gateway
from wicket_mcp.cli.output import apply_style, bar_width, explain, note, say, say_json, write
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

    Compares a flat list with Wicket, and shows the cost by server and the heaviest tools.

    Example: wicket tokens --top 5
    """

    async def work(gateway: "Gateway") -> "Ledger":
        from wicket_mcp.cli.ledger import ledger

        return await ledger(gateway, top)

    result = with_gateway(config, work, verbose=verbose)
    if json:
        say_json(_as_json(result))
    else:
        _print(result)
    if not result.exact:
        note("≈ is an estimate (4 characters a token). To count exactly: pip install 'wicket-mcp[tokens]'")
    name_failures(result.failures, verbose=verbose)


def _print(ledger: "Ledger") -> None:
    mark = "" if ledger.exact else "≈"
    if not ledger.tools:
        say("No tools are known yet.")
        return
    rows = [
        (f"All {ledger.tools:,} tools as a flat list", ledger.flat),
        ("Wicket's menu and instructions", ledger.menu + ledger.instructions),
        ("… and one task found and called", ledger.flow),
    ]
    _bars("In the prompt", rows, mark)
    saved = 100 * (1 - ledger.flow / ledger.flat) if ledger.flat > ledger.flow else 0.0
    explain(f"{saved:.1f} % less for a task, before the tool's own arguments and answer (searched: {ledger.query!r}).")
    _bars("By server", list(ledger.servers.items()), mark)
    if ledger.heaviest:
        _bars("Heaviest tools", ledger.heaviest, mark)


def _bars(title: str, rows: list[tuple[str, int]], mark: str) -> None:
    write("\n" if title != "In the prompt" else "", apply_style(title, "bold"))
    names = max(len(name) for name, _ in rows)
    numbers = max(len(f"{mark}{number:,}") for _, number in rows)
    largest = max(number for _, number in rows) or 1
    width = bar_width(names + numbers + 6, _BAR)
    for name, number in rows:
        amount = f"{mark}{number:,}".rjust(numbers)
        write(clean(f"  {name.ljust(names)}  {amount}  "), apply_style(_bar(number / largest, width), "cyan"))


def _bar(share: float, width: int) -> str:
    """A bar of `share` of the full `width`; plain characters where the output cannot show blocks."""
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return "#" * round(share * width)
    whole, part = divmod(round(share * width * 8), 8)
    return ("█" * whole + _EIGHTHS[part]).strip() or "▏"


def _as_json(ledger: "Ledger") -> dict[str, Any]:
    return {
        "exact": ledger.exact,
        "tokenizer": "o200k_base" if ledger.exact else "characters / 4",
        "tools": ledger.tools,
        "flat": ledger.flat,
        "menu": ledger.menu,
        "instructions": ledger.instructions,
        "search": ledger.search,
        "call": ledger.call,
        "flow": ledger.flow,
        "query": ledger.query,
        "servers": ledger.servers,
        "heaviest": [{"tool": name, "tokens": number} for name, number in ledger.heaviest],
    }
