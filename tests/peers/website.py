"""A domain's web site: https on port 443 of a loopback address of its own."""

import asyncio
import itertools
import os
import ssl
from typing import Self

import pytest

from tests import needs
from tests.peers.http_faults import HttpPeer, Received, send

_numbers = itertools.count(1)


class Website(HttpPeer):
    """Serves `pages` by path; everything else is 404. A page that is an address is a redirect to it."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(tls)
        self.pages: dict[str, str] = {}
        self.address = f"127.{84 + os.getpid() // 250 % 100}.{os.getpid() % 250 + 1}.{next(_numbers)}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, self.address, 443, ssl=self._tls)
        except PermissionError:
            pytest.skip(needs.LOW_PORTS)
        return self

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        page = self.pages.get(request.path)
        if page is None:
            send(writer, 404, "text/plain", b"Nothing here.")
        elif page.startswith("https://"):
            send(writer, 302, "text/plain", b"", Location=page)
        else:
            send(writer, 200, "text/plain", page.encode())
