"""Connections of the HTTP library that obey the egress rules: the names it looks up, and the sockets it makes."""

import socket
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from wicket_mcp.errors import Denied
from wicket_mcp.upstream.egress_rules import EgressRules


class CheckedSockets:
    """The sockets that `rules` let us make, for as long as they are open."""

    def __init__(self, rules: EgressRules) -> None:
        self._rules = rules
        self._open: WeakKeyDictionary[socket.socket, str] = WeakKeyDictionary()

    def connector(self) -> aiohttp.TCPConnector:
        """Asks the rules when it resolves and again when it connects; it caches no name."""
        resolver = _CheckedResolver(self._rules)
        return aiohttp.TCPConnector(limit=0, resolver=resolver, use_dns_cache=False, socket_factory=self._make)

    def recheck(self) -> None:
        """Hang up wherever the rules do not lead any more, in use or not."""
        for connection, target in list(self._open.items()):
            try:
                self._rules.check_target(target)
            except Denied:
                with suppress(OSError):  # it has ended by itself
                    connection.shutdown(socket.SHUT_RDWR)

    def _make(self, info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        self._rules.check_target(where[0])
        created = socket.socket(family, kind, proto)
        self._open[created] = where[0]
        return created


class _CheckedResolver(AbstractResolver):
    def __init__(self, rules: EgressRules) -> None:
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=resolved_family, proto=0, flags=socket.AI_NUMERICHOST
            )
            for resolved_family, address in await self._rules.resolve(host, port)
            if family in (socket.AF_UNSPEC, resolved_family)
        ]

    async def close(self) -> None:
        return None
