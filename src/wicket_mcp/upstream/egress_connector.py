"""Connections of the HTTP library that follow the egress rules: for name lookups and for sockets."""

import socket
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from wicket_mcp.errors import Denied
from wicket_mcp.upstream.egress_rules import EgressRules


class CheckedSockets:
    """The open sockets that `rules` allowed."""

    def __init__(self, rules: EgressRules) -> None:
        self._rules = rules
        self._open: WeakKeyDictionary[socket.socket, str] = WeakKeyDictionary()

    def connector(self) -> aiohttp.TCPConnector:
        """Checks the rules when it resolves a name and again when it connects; caches no name."""
        resolver = _CheckedResolver(self._rules)
        return aiohttp.TCPConnector(limit=0, resolver=resolver, use_dns_cache=False, socket_factory=self._make)

    def recheck(self) -> None:
        """Close every connection that the rules no longer allow, in use or not."""
        for connection, target in list(self._open.items()):
            try:
                self._rules.check_target(target)
            except Denied:
                with suppress(OSError):  # it has already closed
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
