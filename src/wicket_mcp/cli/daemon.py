"""`wicket daemon`: the gateways that this user's clients share when they start `wicket serve`."""

from typing import Annotated

import typer

from wicket_mcp.cli.common import JsonOption
from wicket_mcp.cli.output import note, say, say_json, table

app = typer.Typer(
    no_args_is_help=True, help="Show or stop the daemon that clients share, or read its log.", rich_markup_mode=None
)


@app.command("status")
def status(json: JsonOption = False) -> None:
    """Show the daemons that run, what they serve and how many clients they have.

    Example: wicket daemon status
    """
    from wicket_mcp.daemon.control import find_daemons

    daemons = [about for _, about in find_daemons()]
    if json:
        say_json(daemons)
        return
    if not daemons:
        note("No daemon runs. The first client that starts 'wicket serve' starts one.")
        return
    table(
        ("PID", "CLIENTS", "CALLS", "SERVERS", "UP", "CONFIGURATION", "FOLDER"),
        (
            (
                str(daemon["pid"]),
                str(daemon["clients"]),
                str(daemon["calls"]),
                str(sum(state == "ready" for state in daemon["servers"].values())),
                f"{daemon['seconds']} s",
                daemon["config"],
                daemon["folder"],
            )
            for daemon in daemons
        ),
    )


@app.command("stop")
def stop(json: JsonOption = False) -> None:
    """Stop the daemons once their calls in flight have ended. A client's next message starts a new one.

    Example: wicket daemon stop
    """
    from wicket_mcp.daemon.control import find_daemons
    from wicket_mcp.daemon.control import stop as stop_daemon

    daemons = list(find_daemons())
    stopped = [{"pid": about["pid"], "stopped": stop_daemon(path)} for path, about in daemons]
    if json:
        say_json(stopped)
    elif not stopped:
        note("No daemon runs.")
    for result in stopped if not json else ():
        say(f"stopped {result['pid']}" if result["stopped"] else f"{result['pid']} still ends its calls")
    if not all(result["stopped"] for result in stopped):
        raise typer.Exit(1)


@app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines of each.", min=1)] = 50,
    json: JsonOption = False,
) -> None:
    """Print the end of the daemons' logs, including daemons that have ended.

    Example: wicket daemon logs -n 200
    """
    from pathlib import Path

    from wicket_mcp.shim.identity import runtime_folder

    files = sorted(Path(runtime_folder()).glob("*.log"), key=lambda file: file.stat().st_mtime)
    tails = {str(file): file.read_text("utf-8", "replace").splitlines()[-lines:] for file in files}
    if json:
        say_json(tails)
        return
    if not tails:
        note("No daemon has run yet.")
    for name, text in tails.items():
        note(f"==> {name}")
        for line in text:
            say(line)
