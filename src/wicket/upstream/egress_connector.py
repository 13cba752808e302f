"""Connections of the HTTP library that obey the egress rules: the names it looks up, and the sockets it makes."""

import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from wicket.upstream.egress_rules import EgressRules


def checked_connector(rules: EgressRules) -> aiohttp.TCPConnector:
    """A connector that asks `rules` when it resolves and again when it connects; it caches no name."""

    def make_socket(info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        rules.check_target(where[0])
        return socket.socket(family, kind, proto)

    return aiohttp.TCPConnector(
        limit=0, resolver=_CheckedResolver(rules), use_dns_cache=False, socket_factory=make_socket
    )


class _CheckedResolver(AbstractResolver):
    def __init__(self, rules: EgressRules) -> None:
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=socket.AI_NUMERICHOST)
            for found, address in await self._rules.resolve(host, port)
            if family in (socket.AF_UNSPEC, found)
        ]

    async def close(self) -> None:
        return None
