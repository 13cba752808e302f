"""`wicket dashboard`: open the pages of a gateway that runs, signed in."""

import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, VerboseOption, read
from wicket_mcp.cli.output import note, say
from wicket_mcp.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE = 5.0
_LONGEST_LINE = 1024


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
    from wicket_mcp.cli.browser import open_browser
    from wicket_mcp.surface.dashboard.links import sign_link
    from wicket_mcp.surface.owner_token import load_token

    settings = read(config)
    token, _ = load_token(settings.state_path)
    host = settings.http.host if settings.http.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  (compared)
    root = f"http://{f'[{host}]' if ':' in host else host}:{settings.http.port}"
    if not _is_served(host, settings.http.port) and not (root := _ask_daemon(settings.path)):
        raise Unavailable(
            "wicket",
            f"No gateway answers at http://{host}:{settings.http.port}, and no client has started a daemon.",
            hint="Start one: wicket serve --http",
        )
    link = f"{root}/ui/sign-in?code={sign_link(token)}"
    if browser and sys.stdout.isatty() and open_browser(link, settings.oauth.browser):
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


def _is_served(host: str, port: int) -> bool:
    """Whether a gateway answers there. Asked by hand: the standard library's HTTP client takes longer to load than all
    the rest here.
    """
    try:
        with socket.create_connection((host, port), _PATIENCE) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while b"\r\n" not in answer and len(answer) < _LONGEST_LINE and (piece := sock.recv(1024)):
                answer += piece
        return answer.startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False
