"""What a browser sends and sees during a sign-in: its cookies, our paths, and short pages."""

from collections import Counter
from html import escape
from urllib.parse import parse_qsl

from msgspec import Struct

PATH = "/oauth/callback"
START = "/oauth/start/"
OTHER_PAGE = "This form was sent by another page. Open the link from your client again."
_LONGEST_COOKIE = 4096


class Reply(Struct, frozen=True):
    """What a browser is answered."""

    status: int
    text: str = ""
    action: str = ""
    """Where the page's button posts to."""
    nonce: str = ""
    """What the button posts: no other page can read it."""
    location: str = ""
    """Where the browser goes on without a page."""
    cookie: str = ""


def find_cookie(header: str, name: str) -> str:
    """The value of our cookie of this name in a `Cookie` header; "" if there is none. Reads each character once: what
    a browser has of others is skipped, and so is what is longer than a browser stores.
    """
    pairs = [pair.partition("=") for pair in header.split(";")]
    last = next((value.strip() for key, _, value in reversed(pairs) if key.strip() == name), "")
    return last if len(last) <= _LONGEST_COOKIE else ""


def read_query(query: str) -> dict[str, str]:
    """The parameters of a redirect. A parameter that appears twice is dropped, because it is ambiguous."""
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1}


def page(reply: Reply) -> bytes:
    """A short page with an optional button, without scripts or external content."""
    if reply.location:
        return b""
    field = f'<input type="hidden" name="nonce" value="{escape(reply.nonce)}"><button>Continue</button>'
    onward = f'<form method="post" action="{escape(reply.action)}">{field}</form>' if reply.action else ""
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


_HEADERS = (  # no form-action: browsers apply it to each redirect behind the form, and those of a provider are unknown
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "same-origin"),  # with "no-referrer", a browser names no origin for our form
    ("X-Content-Type-Options", "nosniff"),
)
