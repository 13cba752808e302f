"""`wicket dashboard`: open the pages of a gateway that runs, signed in."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, VerboseOption, read
from wicket_mcp.cli.output import note, say
from wicket_mcp.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


def dashboard(
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser, or only print the link.")] = True,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Open the dashboard of the running gateway, or of the daemon.

    That is the gateway of wicket serve --http or, if there is none, the daemon that clients over stdio share.
    The link works once, within a minute, and does not contain the token.

    Example: wicket dashboard
    """
    import webbrowser

    from wicket_mcp.surface.dashboard.sessions import sign_link
    from wicket_mcp.surface.guard import load_token

    settings = read(config)
    token, _ = load_token(settings.state_path)
    host = settings.http.host if settings.http.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  (compared)
    root = f"http://{f'[{host}]' if ':' in host else host}:{settings.http.port}"
    if not _is_served(root) and not (root := _ask_daemon(settings.path)):
        raise Unavailable(
            "wicket",
            f"No gateway answers at http://{host}:{settings.http.port}, and no client has started a daemon.",
            hint="Start one: wicket serve --http",
        )
    link = f"{root}/ui/sign-in?code={sign_link(token)}"
    if browser and sys.stdout.isatty() and webbrowser.open(link):
        note("The dashboard is open in your browser.")
    else:
        say(link)


def _ask_daemon(config: "Path | None") -> str:
    """The address of the dashboard of the daemon that serves this configuration; empty if there is none."""
    from wicket_mcp.daemon.control import ask, find_daemons

    for path, about in find_daemons():
        if about["config"] == str(config) and not about["retired"]:
            return str(ask(path, "dashboard").get("address", ""))
    return ""


def _is_served(root: str) -> bool:
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(f"{root}/healthz", timeout=5) as answer:  # noqa: S310  (our own address, http)
            return answer.status == 200
    except (URLError, OSError):
        return False
