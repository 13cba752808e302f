"""Links that sign in to the dashboard once, within a minute: made by `wicket dashboard` from the gateway's token.

The token itself appears in no URL. A link is made for one address, and only after what answers there has proved that it
has the token too and is at that address: another user's program on a port of ours gets nothing, not even by asking our
gateway. `sessions.py` sees to it that a link is used once. Imports nothing that a command would wait for.
"""

import hmac
import secrets
import time

LINK_LIFETIME = 60
LONGEST_CHALLENGE = 64


def place_of(host: str, port: int) -> str:
    """How a gateway and those who ask it name its address; one that listens everywhere is asked on this machine."""
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104  (compared, not bound)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def prove(token: str, challenge: str, place: str) -> str:
    """What only a gateway with this token at this place answers to a challenge."""
    return _sign(token, f"dashboard proof {challenge} {place}")


def sign_link(token: str, place: str, now: float | None = None) -> str:
    """A code that opens the dashboard at `place` for the holder of the gateway's token."""
    expires = int((time.time() if now is None else now) + LINK_LIFETIME)
    return _code(token, str(expires), secrets.token_hex(16), place)


def is_signed(code: str, token: str, place: str, now: float) -> bool:
    """Whether `code` was made from `token` for `place` recently."""
    expires, _, tail = code.partition(".")
    nonce, _, _ = tail.partition(".")
    if not expires.isdecimal() or len(expires) > 12 or int(expires) < now:
        return False
    return hmac.compare_digest(_code(token, expires, nonce, place).encode(), code.encode("utf-8", "replace"))


def _code(token: str, expires: str, nonce: str, place: str) -> str:
    return f"{expires}.{nonce}.{_sign(token, f'dashboard link {expires} {nonce} {place}')}"


def _sign(token: str, words: str) -> str:
    return hmac.digest(token.encode(), words.encode("utf-8", "replace"), "sha256").hex()
