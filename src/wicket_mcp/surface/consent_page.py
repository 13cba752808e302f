"""The pages of our authorization server: consent, and what went wrong. Text in, HTML out; no script, no image.

Everything that comes from a client is escaped. The content security policy forbids framing, and lets the form lead only
to us and back to the client.
"""

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from urllib.parse import urlsplit

from wicket_mcp.identity.clients import is_loopback, place_of
from wicket_mcp.identity.grants import AuthorizationRequest
from wicket_mcp.surface.http import Headers

SCOPES = {
    "discover": "See which tools and servers there are",
    "invoke": "Call tools, with your credentials",
    "register": "Publish servers in the registry",
    "admin": "Change this gateway itself",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 10vh auto; padding: 0 1rem; color: #1a1a1a;
  background: #fff; }
h1 { font-size: 1.3rem } ul { list-style: none; padding: 0 } li { margin: .4rem 0 }
code { background: #f0f0f0; padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
input[type=password] { font: inherit; width: 100%; padding: .5rem; box-sizing: border-box; margin: .3rem 0 1rem }
button { font: inherit; padding: .6rem 1.2rem; margin-right: .5rem; border-radius: 4px; border: 1px solid #888 }
button[value=approve] { background: #1f5fbf; color: #fff; border-color: #1f5fbf }
.problem { color: #a40000 }
@media (prefers-color-scheme: dark) { body { background: #1a1a1a; color: #eee } code { background: #333 }
  .problem { color: #ff8080 } }
"""
_SWITCH = '<button name="decision" value="switch">Use another account</button>'
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def page_headers(redirect_uri: str = "") -> Headers:
    """The headers of every page. Browsers also apply `form-action` to the redirect that follows a form."""
    back = f" {place_of(redirect_uri)}" if redirect_uri else ""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'{back}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    return (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode("ascii", "replace")),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    )


def consent(
    request: AuthorizationRequest,
    sealed: str,
    signed_in: str,
    *,
    problem: str = "",
    action: str = "/oauth/authorize",
    providers: Sequence[tuple[str, str]] = (),
) -> str:
    """Ask whether a client may have the access that it requests. `signed_in` is the user who is already signed in, or
    empty. Otherwise the user signs in with a token, a key, or one of the `providers` (form value and display name).
    """
    rows = "".join(_scope_row(scope) for scope in request.scopes)
    if signed_in:
        credential = f"<p>You are signed in as <strong>{escape(signed_in)}</strong>.</p>"
    else:
        credential = (
            '<label for="credential">Wicket’s token, or your API key (<code>wicket status</code> says where the token '
            'is kept)</label><input type="password" id="credential" name="credential" '
            'autocomplete="current-password" required autofocus>'
        )
    warning = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return _page(
        "Allow access?",
        f"<h1>Allow <em>{escape(request.client_name)}</em> to use this Wicket?</h1>"
        f"{_origin_of(request)}{warning}"
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="request" value="{escape(sealed)}"><p>It asks to:</p><ul>{rows}</ul>{credential}'
        '<button name="decision" value="approve">Allow</button>'
        f"{_SWITCH if signed_in else _provider_buttons(providers)}"
        '<button name="decision" value="deny" formnovalidate>Deny</button></form>',
    )


def leave(url: str) -> str:
    """Send a browser on to a provider. A redirect of the form would not work: the policy allows it only to the
    client.
    """
    return go_on(url, urlsplit(url).netloc, "Sign in with")


def go_on(url: str, name: str, words: str = "Continue to") -> str:
    """Send a browser on to another page."""
    onward = f'<meta http-equiv="refresh" content="0;url={escape(url)}">'
    return _page("Sign in", f'<p><a href="{escape(url)}">{words} {escape(name)}</a></p>', onward)


def _provider_buttons(providers: Sequence[tuple[str, str]]) -> str:
    words = "Allow, and sign in with"
    return "".join(
        f'<button name="decision" value="{escape(value)}" formnovalidate>{words} {escape(name)}</button>'
        for value, name in providers
    )


def failure_page(words: str, back: str = "") -> str:
    """Why nothing can be approved here. Has no link to a client, because its address may be the problem; `back` is a
    page of ours.
    """
    onward = f'<a href="{escape(back)}">Try again.</a>' if back else "Go back to the client and connect again."
    return _page(
        "Cannot sign in",
        f'<h1>This cannot go on</h1><p class="problem" role="alert">{escape(words)}</p><p>{onward}</p>',
    )


def _origin_of(request: AuthorizationRequest) -> str:
    """The address that gets the answer, and the client's own: a client can fake neither."""
    split = urlsplit(request.redirect_uri)
    if is_loopback(request.redirect_uri):
        goal = "an application on this computer"
    elif split.scheme in ("http", "https"):
        goal = f"<code>{escape(split.netloc)}</code>"
    else:
        goal = f"the application that opens <code>{escape(split.scheme)}:</code> addresses"
    known = f" It is known by <code>{escape(request.client)}</code>." if request.client.startswith("http") else ""
    return f"<p>Access is given to {goal}.{known} Allow it only if you have just asked for this.</p>"


def _scope_row(scope: str) -> str:
    checked = "" if scope == "admin" else " checked"
    words = escape(SCOPES.get(scope, scope))
    return f'<li><label><input type="checkbox" name="scope" value="{escape(scope)}"{checked}> {words}</label></li>'


def _page(title: str, body: str, head: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · Wicket</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>{head}</head>'
        f"<body><main>{body}</main></body></html>"
    )


def known_scopes(words: Sequence[str]) -> tuple[str, ...]:
    """The scopes we know among those that a client requests."""
    return tuple(scope for scope in SCOPES if scope in words)
