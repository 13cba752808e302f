"""What a browser sees during a sign-in: our paths, and short pages."""

from html import escape
from urllib.parse import parse_qsl

from msgspec import Struct

PATH = "/oauth/callback"
START = "/oauth/start/"


class Reply(Struct, frozen=True):
    """What a browser is answered."""

    status: int
    text: str = ""
    link: str = ""
    """Where the page leads on, if somebody clicks."""
    location: str = ""
    """Where the browser goes on without a page."""
    cookie: str = ""


def read_query(query: str) -> dict[str, str]:
    """The parameters of a redirect. A parameter that appears twice is dropped, because it is ambiguous."""
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def page(reply: Reply) -> bytes:
    """A short page with an optional link, without scripts or external content."""
    if reply.location:
        return b""
    onward = f'<p><a href="{escape(reply.link)}">Continue</a></p>' if reply.link else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Wicket</title>'
        '<body style="font:1.1rem system-ui;margin:15vh auto;max-width:36rem">'
        f"<h1>Wicket</h1><p>{escape(reply.text)}</p>{onward}"
    ).encode()


def headers_of(reply: Reply, body: bytes) -> list[tuple[str, str]]:
    headers = [*_HEADERS, ("Content-Length", str(len(body)))]
    if reply.location:
        headers.append(("Location", reply.location))
    if reply.cookie:
        headers.append(("Set-Cookie", reply.cookie))
    return headers


_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
