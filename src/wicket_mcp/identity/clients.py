"""OAuth clients of our own authorization server: their description of themselves, and their allowed redirect addresses.

A client is identified by the address of a document that it publishes (CIMD), or has registered itself. Both prove only
the redirect address, so it must match exactly; only the port of a loopback address is free (RFC 8252). Documents are
fetched under the egress rules, and used for five minutes. Both cost us something for anybody who asks, so each address
of the network has a limit.
"""

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from wicket_mcp.errors import BadArguments, RateLimited, WicketError
from wicket_mcp.identity.documents import Documents
from wicket_mcp.model import JsonObject, as_list, as_text
from wicket_mcp.store.base import GrantStore, LimitStore
from wicket_mcp.store.model import StoredClient

MAX_CLIENTS = 1000
"""Registered clients that nobody has allowed anything yet."""
SIGN_IN_TIME = 600.0
"""Seconds for which a new client is not dropped: somebody may be at its consent page."""
PER_HOUR = 300
"""Registrations, and documents that are fetched, for each address of the network."""
DOCUMENT_LIFE = 300.0
MAX_DOCUMENTS = 200
MAX_REDIRECTS = 20
MAX_LENGTH = 2000
MAX_NAME = 80
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_FORBIDDEN = frozenset({"javascript", "data", "file", "vbscript", "blob", "about", "view-source", "ws", "wss", "ftp"})
_ODD = re.compile(r"[^\x21-\x7e]|[\"'<>\\^`{|};,]")
"""Characters that no address needs unencoded; commas and semicolons would end a rule of a content security policy."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client, as it describes itself."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]

    def redirect(self, uri: str) -> str | None:
        """The redirect address, if the client may use it; its only address if it names none."""
        if not uri:
            return self.redirect_uris[0] if len(self.redirect_uris) == 1 else None
        return uri if any(_same_place(uri, known) for known in self.redirect_uris) else None


class ClientsStore(GrantStore, LimitStore, Protocol):
    """What is stored about clients, and about how often an address asked for something."""


class Clients:
    """All OAuth clients."""

    def __init__(self, store: ClientsStore, documents: Documents, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._documents = documents
        self._clock = clock
        self._read: OrderedDict[str, tuple[Client, float]] = OrderedDict()
        """Clients by the address of their document, and until when that counts."""
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By host: one document of a host is fetched at a time."""

    async def find(self, client_id: str, address: str) -> Client:
        """The client with this id, for somebody at `address`. Raises BadArguments if no client has it, or its document
        cannot be used, and RateLimited.
        """
        if client_id.startswith(("https://", "http://")):
            return await self._find_published(client_id, address)
        stored = await self._store.oauth_client(client_id[:MAX_LENGTH])
        if stored is None:
            raise BadArguments("This client is not registered here.", hint="Connect again from the client.")
        return Client(stored.id, stored.name, stored.redirect_uris)

    async def register(self, body: JsonObject, address: str) -> StoredClient:
        """Dynamic registration (RFC 7591), for public clients only. Raises BadArguments and RateLimited."""
        redirects, now = check_redirects(body.get("redirect_uris")), self._clock()
        await self._count(address, "oauth registration")
        client = StoredClient(f"wc_{secrets.token_urlsafe(16)}", _name(body, redirects), redirects, now)
        if not await self._store.save_oauth_client(client, MAX_CLIENTS, now - SIGN_IN_TIME):
            raise RateLimited("Very many clients register here now.", retry_after=SIGN_IN_TIME)
        return client

    async def _count(self, address: str, kind: str) -> None:
        wait = await self._store.take(f"address {address}", kind, PER_HOUR, self._clock())
        if wait:
            raise RateLimited("Too much was asked for from this address.", retry_after=wait)

    async def _find_published(self, client_id: str, address: str) -> Client:
        if not _is_safe(client_id) or not _names_document(urlsplit(client_id).path):
            raise BadArguments("The client's id is not the https address of a document.")
        host = urlsplit(client_id).netloc.lower()
        lock = self._reading.setdefault(host, asyncio.Lock())
        async with lock:
            client, until = self._read.get(client_id, (None, 0.0))
            if client is None or self._clock() >= until:
                await self._count(address, "oauth document")
                client = await self._fetch(client_id)
                self._read[client_id] = client, self._clock() + DOCUMENT_LIFE
                self._read.move_to_end(client_id)
                while len(self._read) > MAX_DOCUMENTS:
                    self._read.popitem(last=False)
            return client

    async def _fetch(self, client_id: str) -> Client:
        try:
            document = await self._documents.get(client_id)
        except WicketError as problem:
            raise BadArguments(f"The client cannot be identified: {problem.message}") from None
        if document.get("client_id") != client_id:
            raise BadArguments("The client's document is about another client.")
        redirects = check_redirects(document.get("redirect_uris"))
        return Client(client_id, _name(document, redirects), redirects)


def check_redirects(value: Any) -> tuple[str, ...]:
    """The redirect addresses of a client. Raises BadArguments for an unsafe one."""
    redirects = tuple(text for text in as_list(value) if isinstance(text, str))
    if not redirects or len(redirects) != len(as_list(value)) or len(redirects) > MAX_REDIRECTS:
        raise BadArguments("redirect_uris must be a list of one to twenty addresses.")
    for uri in redirects:
        if not _is_safe(uri):
            raise BadArguments(
                "A redirect address is not safe.", hint="Use https, http on this computer, or an application's scheme."
            )
    return redirects


def place_of(uri: str) -> str:
    """The part of a redirect address that identifies the receiver, as a content security policy names it."""
    split = urlsplit(uri)
    return f"{split.scheme}://{split.netloc}" if split.scheme in ("http", "https") else f"{split.scheme}:"


def is_loopback(uri: str) -> bool:
    host = urlsplit(uri).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_safe(uri: str) -> bool:
    try:
        split = urlsplit(uri)
        host, _ = split.hostname, split.port
    except ValueError:
        return False
    if len(uri) > MAX_LENGTH or _ODD.search(uri) or "#" in uri or split.username is not None:
        return False
    if split.scheme == "https":
        return bool(host)
    if split.scheme == "http":
        return is_loopback(uri)
    return bool(_SCHEME.fullmatch(split.scheme)) and split.scheme not in _FORBIDDEN


def _names_document(path: str) -> bool:
    segments = path.lower().replace("%2e", ".").split("/")
    return path not in ("", "/") and "." not in segments and ".." not in segments


def _same_place(uri: str, known: str) -> bool:
    if uri == known:
        return True
    if not uri.startswith("http://") or not is_loopback(known) or not _is_safe(uri):
        return False
    left, other = urlsplit(uri), urlsplit(known)
    return left.hostname == other.hostname and left._replace(netloc="") == other._replace(netloc="")


def _name(body: JsonObject, redirects: Iterable[str]) -> str:
    printable = "".join(letter for letter in as_text(body.get("client_name")) if letter.isprintable()).strip()
    return printable[:MAX_NAME] or place_of(next(iter(redirects)))
