"""The approver's passphrase: what a person knows, and a program that runs as the same user does not.

Kept in the store as a slow hash, so that whoever approves is asked for it whatever configuration they name.
`wicket approve` and the dashboard ask for it; while there is one, a client's form is no approval by default.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets

from wicket_mcp.errors import BadArguments, Denied
from wicket_mcp.model import Principal
from wicket_mcp.store.base import NoteStore

SHORTEST = 8
_NOTE = "approver's passphrase"
_MEMORY = 128 * 1024**2
_ROUNDS, _BLOCK = 2**16, 8  # 64 MiB and about a fifth of a second for each guess


class Approver:
    """The passphrase in one store."""

    def __init__(self, notes: NoteStore) -> None:
        self._notes = notes
        self._guessing = asyncio.Lock()
        """One guess at a time: each takes memory, and several at once would only help who guesses."""

    async def is_set(self) -> bool:
        return bool(await self._notes.load_note(_NOTE))

    async def check(self, text: str) -> None:
        """Raises Denied unless this is the passphrase, or there is none."""
        stored = await self._notes.load_note(_NOTE)
        if not stored:
            return
        salt, _, digest = stored.partition(" ")
        async with self._guessing:
            if hmac.compare_digest(await asyncio.to_thread(_hash, text, salt), digest):
                return
        raise Denied("This is not the approver's passphrase.", hint="Nothing was approved.")

    async def change(self, new: str) -> None:
        """Ask for this passphrase from now on; an empty one ends that. Raises BadArguments."""
        if new and len(new) < SHORTEST:
            raise BadArguments(f"A passphrase has at least {SHORTEST} characters.", hint="Nothing was changed.")
        salt = secrets.token_hex(16)
        await self._notes.save_note(_NOTE, f"{salt} {await asyncio.to_thread(_hash, new, salt)}" if new else "")


async def agrees_by_form(approver: Approver, principal: Principal) -> bool:
    """Whether a client's form counts as the answer of a person, unless a rule says who may agree."""
    return principal.is_person and not await approver.is_set()


def _hash(text: str, salt: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    key = hashlib.scrypt(data, salt=salt.encode(), n=_ROUNDS, r=_BLOCK, p=1, maxmem=_MEMORY, dklen=32)
    return base64.b64encode(key).decode()
