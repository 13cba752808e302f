"""Which addresses a request may go to if its address came from an agent or a registry, not from the configuration.

Only public addresses, checked at the last moment: every address that a name resolves to is checked, and the socket is
opened to exactly the checked address, so that a change of the name in between has no effect. Addresses that contain
other addresses are unwrapped first. The configuration may allow more.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias
from urllib.parse import urlsplit

from wicket_mcp.errors import ConfigError, Denied

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
ResolvedAddress: TypeAlias = tuple[socket.AddressFamily, str]
Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[ResolvedAddress]]]

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_UNICAST = IPv6Network("2000::/3")
_SPECIAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
"""Listed here as well, because `ipaddress` classifies it differently in different Python versions."""

_ISATAP = (0x00005EFE, 0x02005EFE)
_INTERNAL = frozenset({IPv4Address("168.63.129.16")})
"""Looks public, but is answered by a cloud's own host for the machines inside it."""

_PORTS = frozenset({80, 443})
_LOWEST_FREE_PORT = 1024
_ALLOW = "Name a public server, or allow this one in registry.allowed_addresses."


@dataclass(frozen=True, slots=True)
class Allowed:
    """Addresses, networks (`10.0.0.0/8`) and host names that are allowed besides public ones."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "Allowed":
        """Raises ConfigError."""
        networks: list[Network] = []
        hosts: set[str] = set()
        for entry in entries:
            try:
                networks.append(ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                hosts.add(_host_name(entry))
        return cls(tuple(networks), frozenset(hosts))


class NotPublic(Denied):
    """A private address. Its exact value reveals the internal network, so not everyone may see it: see `discreet`."""

    def discreet(self) -> Denied:
        """The same error without the address."""
        return _refusal("is not a public address")


class EgressRules:
    """`allowed`: what may be reached in addition to public addresses."""

    def __init__(self, allowed: Allowed | Iterable[str] = (), lookup: Lookup | None = None) -> None:
        self._named: dict[str, set[Address]] = {}
        """The addresses that the allowed host names resolved to."""
        self._lookup = lookup or _system_lookup
        self.use(allowed)

    def use(self, allowed: Allowed | Iterable[str]) -> None:
        """Allow these from now on. Raises ConfigError, and then nothing changes."""
        self._allowed = allowed if isinstance(allowed, Allowed) else Allowed.parse(allowed)
        self._named = {host: addresses for host, addresses in self._named.items() if host in self._allowed.hosts}

    def check_url(self, url: str) -> None:
        """Check what is possible before a name lookup. Raises Denied."""
        try:
            split = urlsplit(url)
            host, port = (split.hostname or "").lower().rstrip("."), split.port
        except ValueError:
            raise _refusal("is not a web address") from None
        if split.scheme not in ("http", "https") or not host:
            raise _refusal("is not a web address")
        if split.username is not None or split.password is not None:
            raise _refusal("carries a user name or password", "Put credentials into headers.")
        if set(url) & set(" \t\r\n\\") or not url.isascii():
            raise _refusal("has characters that no address has", "Encode them.")
        if host in self._allowed.hosts:
            return
        literal = _literal(host)
        if literal is not None:
            self.check(literal)
            if self._is_listed(literal):
                return
        if split.scheme == "http":
            raise _refusal("is not encrypted", "Use https.")
        if port is not None and port not in _PORTS and port < _LOWEST_FREE_PORT:
            raise _refusal(f"uses port {port}, which belongs to another service", "Use port 443.")

    def check(self, address: Address) -> None:
        """Raises Denied unless the address, and every address inside it, is public or allowed."""
        for inner in unwrap(address):
            if not self._is_listed(inner) and not _public(inner):
                raise NotPublic(f"The address leads to {inner}, which is not a public address.", hint=_ALLOW)

    async def resolve(self, host: str, port: int) -> list[ResolvedAddress]:
        """Every address of `host`, all checked. Raises Denied, or OSError if there is none."""
        resolved = list(await self._lookup(host, port))
        addresses = [ip_address(text.partition("%")[0]) for _, text in resolved]
        name = host.lower().rstrip(".")
        if name in self._allowed.hosts:
            self._named.setdefault(name, set()).update(addresses)
        else:
            for address in addresses:
                self.check(address)
        return resolved

    def check_target(self, target: str) -> None:
        """Check again the address that a socket is about to connect to or is connected to. Raises Denied."""
        address = ip_address(target.partition("%")[0])
        if not any(address in addresses for addresses in self._named.values()):
            self.check(address)

    def _is_listed(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self._allowed.networks)


def _host_name(entry: str) -> str:
    if "/" in entry or not entry.strip():
        raise ConfigError(
            f"'{entry}' is not an address, a network or a host name",
            key="registry.allowed_addresses",
            hint="Use 127.0.0.1, 10.0.0.0/8 or intranet.example.",
        )
    return entry.lower().rstrip(".")


def unwrap(address: Address) -> list[Address]:
    """The address and every IPv4 address that it contains, in any encoding."""
    if isinstance(address, IPv4Address):
        return [address]
    number = int(address)
    inner: list[Address] = []
    if address.ipv4_mapped is not None:
        inner.append(address.ipv4_mapped)
        return inner
    if address in _NAT64 or address in _TRANSLATED or (address in _COMPATIBLE and number > 1):
        inner.append(IPv4Address(number & 0xFFFFFFFF))
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address.teredo is not None:
        inner += address.teredo
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        inner.append(IPv4Address(number & 0xFFFFFFFF))
    return inner if address in _NAT64 else [address, *inner]


def _public(address: Address) -> bool:
    if address in _INTERNAL or (isinstance(address, IPv6Address) and address not in _UNICAST):
        return False
    if any(address.version == network.version and address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_reserved and not address.is_multicast


def _literal(host: str) -> Address | None:
    """The address that a host stands for, in any notation that a resolver accepts: 127.1, 0x7f000001, 017700000001."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


async def _system_lookup(host: str, port: int) -> list[ResolvedAddress]:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(family, str(where[0])) for family, _, _, _, where in infos]


def _refusal(why: str, hint: str = "") -> Denied:
    return Denied(f"The address {why}.", hint=hint or _ALLOW)
