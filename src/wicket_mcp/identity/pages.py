"""What a browser sees during a sign-in: our paths, and short pages."""

from html import escape
from urllib.parse import parse_qsl

PATH = "/oauth/callback"
START = "/oauth/start/"


def read_query(query: str) -> dict[str, str]:
    """The parameters of a redirect. A parameter that appears twice is dropped, because it is ambiguous."""
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def page(text: str, link: str = "") -> bytes:
    """A short page with an optional link, without scripts or external content."""
    onward = f'<p><a href="{escape(link)}">Continue</a></p>' if link else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Wicket</title>'
        '<body style="font:1.1rem system-ui;margin:15vh auto;max-width:36rem">'
        f"<h1>Wicket</h1><p>{escape(text)}</p>{onward}"
    ).encode()


PAGE_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
