"""Links that sign in to the dashboard once, within a minute: made by `wicket dashboard` from the gateway's token.

The token itself appears in no URL. `sessions.py` sees to it that a link is used once. Imports nothing that a command
would wait for.
"""

import hmac
import secrets
import time

LINK_LIFETIME = 60


def sign_link(token: str, now: float | None = None) -> str:
    """A code that opens the dashboard for the holder of the gateway's token."""
    expires = int((time.time() if now is None else now) + LINK_LIFETIME)
    return _code(token, str(expires), secrets.token_hex(16))


def is_signed(code: str, token: str, now: float) -> bool:
    """Whether `code` was made from `token` recently."""
    expires, _, tail = code.partition(".")
    nonce, _, _ = tail.partition(".")
    if not expires.isdecimal() or len(expires) > 12 or int(expires) < now:
        return False
    return hmac.compare_digest(_code(token, expires, nonce).encode(), code.encode("utf-8", "replace"))


def _code(token: str, expires: str, nonce: str) -> str:
    signed = hmac.digest(token.encode(), f"dashboard {expires} {nonce}".encode(), "sha256").hex()
    return f"{expires}.{nonce}.{signed}"
