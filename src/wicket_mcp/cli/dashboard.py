"""`wicket dashboard`: open the pages of a gateway that runs, signed in."""

import hmac
import secrets
import socket
import sys
from html import escape
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, VerboseOption, read
from wicket_mcp.cli.output import note, say
from wicket_mcp.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE = 5.0
_LONGEST_ANSWER = 16 * 1024
_PAGE = """<!doctype html><meta charset="utf-8"><title>Wicket</title><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><p><a href="{link}">Continue to the dashboard</a>
"""


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
    from wicket_mcp.files import replace_file
    from wicket_mcp.surface.dashboard.links import sign_link
    from wicket_mcp.surface.owner_token import load_token

    settings = read(config)
    token, _ = load_token(settings.state_path)
    host = settings.http.host if settings.http.host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  (compared)
    place = _find_gateway(host, settings.http.port, token) or _ask_daemon(settings.path)
    if not place:
        raise Unavailable(
            "wicket",
            f"No gateway with your token answers at http://{host}:{settings.http.port}, and no client has started a "
            "daemon.",
            hint="Start one: wicket serve --http. One that runs with --no-auth needs no link: open its address with "
            "/ui. If another program has this port, change port in [http].",
        )
    link = f"http://{place}/ui/sign-in?code={sign_link(token, place)}"
    if not browser or not sys.stdout.isatty():
        say(link)
        return
    page = settings.state_path / "dashboard.html"  # all users of the machine can read the arguments of a browser
    replace_file(page, _PAGE.format(link=escape(link)))
    if open_browser(page.as_uri(), settings.oauth.browser):
        note("The dashboard is open in your browser. If it is not: wicket dashboard --no-open")
    else:
        say(link)


def _ask_daemon(config: "Path | None") -> str:
    """Where the daemon that serves this configuration serves its dashboard; empty if there is none. The answer is the
    daemon's own: it comes over a socket in a folder of this user.
    """
    from wicket_mcp.daemon.control import ask, find_daemons

    for path, about in find_daemons():
        if about["config"] == str(config) and not about["retired"]:
            return str(ask(path, "dashboard").get("address", "")).removeprefix("http://")
    return ""


def _find_gateway(host: str, port: int, token: str) -> str:
    """Where a gateway with this token answers; empty if none does. Asked by hand: the standard library's HTTP client
    takes longer to load than all the rest here.
    """
    from wicket_mcp.surface.dashboard.links import place_of, prove

    challenge = secrets.token_hex(16)
    request = f"GET /ui/sign-in?challenge={challenge} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((host, port), _PATIENCE) as sock:
            place = place_of(*sock.getpeername()[:2])
            sock.sendall(request.encode())
            answer = b""
            while len(answer) < _LONGEST_ANSWER and (piece := sock.recv(4096)):
                answer += piece
    except OSError:
        return ""
    proof = answer.partition(b"\r\n\r\n")[2].strip()
    return place if hmac.compare_digest(proof, prove(token, challenge, place).encode()) else ""
