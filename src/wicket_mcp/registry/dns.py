"""DNS lookups: the TXT records of a name, or its addresses, from the configured resolvers.

Uses dnspython, which the extra `registry` installs and which is loaded for the first lookup: serving does not need it.
The addresses of resolvers are parsed without it. Called by `domains`, and by `settings` to check options.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from wicket_mcp.errors import ConfigError
from wicket_mcp.upstream.egress_rules import Lookup, ResolvedAddress

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver as Client

TIMEOUT = 3.0  # seconds for each resolver
INSTALL = "Install it with: pip install 'wicket-mcp[registry]'"


class LookupFailed(Exception):
    """No resolver gave a usable answer; says why."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """A resolver's address."""

    host: str
    port: int = 53

    @classmethod
    def parse(cls, text: str) -> "Resolver":
        """`9.9.9.9`, `127.0.0.1:5353`, `[::1]:53`. Raises ConfigError."""
        host, port = text, "53"
        if text.startswith("["):
            host, _, suffix = text[1:].partition("]")
            port = suffix.removeprefix(":") or "53"
        elif text.count(":") == 1:
            host, port = text.split(":")
        try:
            number = int(port)
            if not 0 < number < 65536:
                raise ValueError
            return cls(str(ip_address(host)), number)
        except ValueError:
            raise ConfigError(
                f"'{text}' is not the address of a resolver", key="registry.resolvers", hint="Use IP or IP:PORT."
            ) from None


def require_client() -> None:
    """Raises ConfigError if resolvers are configured but the extra is missing."""
    if not find_spec("dns"):
        raise ConfigError("the package dnspython is missing", key="registry.resolvers", hint=INSTALL)


async def txt_records(name: str, resolvers: Sequence[Resolver], timeout: float = TIMEOUT) -> list[str]:
    """The TXT records of `name`; empty if the name does not exist. Raises LookupFailed.

    Uses the system's resolvers if none are given; `timeout` applies to each resolver.
    """
    records = await _query(name, "TXT", resolvers, timeout)
    return [b"".join(record.strings).decode("utf-8", "replace") for record in records]


def lookup(resolvers: Sequence[Resolver]) -> Lookup:
    """Finds the addresses of names with these resolvers only."""

    async def addresses(name: str, port: int) -> list[ResolvedAddress]:
        results: list[ResolvedAddress] = []
        try:
            for family, kind in ((socket.AF_INET, "A"), (socket.AF_INET6, "AAAA")):
                results += [(family, record.address) for record in await _query(name, kind, resolvers, TIMEOUT)]
        except LookupFailed as failed:
            raise OSError(str(failed)) from None
        if not results:
            raise OSError(f"{name} has no address")
        return results

    return addresses


async def _query(name: str, kind: str, resolvers: Sequence[Resolver], timeout: float) -> list[Any]:
    try:
        from dns.exception import DNSException, Timeout  # noqa: PLC0415  (an extra, and slow to load)
        from dns.resolver import NXDOMAIN, NoNameservers  # noqa: PLC0415
    except ImportError:
        raise LookupFailed(f"DNS cannot be asked: the package dnspython is missing. {INSTALL}") from None
    try:
        client = _client(resolvers, timeout)
        return list(await client.resolve(f"{name}.", kind, search=False, raise_on_no_answer=False))
    except NXDOMAIN:
        return []
    except Timeout:
        raise LookupFailed(f"no resolver answered the question for {name} in time") from None
    except NoNameservers as failed:
        raise LookupFailed(f"no resolver answered the question for {name} ({_reasons(failed)})") from None
    except (DNSException, OSError) as failed:
        raise LookupFailed(f"DNS cannot be asked for {name} ({failed})") from None


def _client(resolvers: Sequence[Resolver], timeout: float) -> "Client":
    from dns.asyncresolver import Resolver as Client  # noqa: PLC0415  (as above)
    from dns.nameserver import Do53Nameserver  # noqa: PLC0415

    client = Client(configure=not resolvers)
    if resolvers:
        client.nameservers = [Do53Nameserver(resolver.host, resolver.port) for resolver in resolvers]
    client.timeout, client.lifetime = timeout, timeout * max(1, len(client.nameservers))
    return client


def _reasons(failed: Exception) -> str:
    """What each resolver answered."""
    errors: Sequence[Any] = getattr(failed, "kwargs", {}).get("errors", ())
    return "; ".join(f"{error[0]}: {error[3]}" for error in errors) or "none is configured"
