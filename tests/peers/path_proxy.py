"""A reverse proxy that serves a gateway under a path of a host, beside other sites (`docs/deployment.md`).

It takes the path off, except behind `/.well-known/…`, where clients look for metadata (RFC 8414, RFC 9728).
"""

from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding"}


class PathProxy:
    """Enter it; then `address` is the gateway's public address, and requests go to the origin `target`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.address = ""
        self.target = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        _, port = self._runner.addresses[0][:2]
        self.address = f"http://127.0.0.1:{port}{self.path}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        inner = self._inner_path(request.raw_path)
        if inner is None:
            return web.Response(status=404, text="another site")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = URL(f"{self.target}{inner}", encoded=True)
        async with self._session.request(
            request.method, url, headers=headers, data=await request.read(), allow_redirects=False
        ) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
            response = web.StreamResponse(status=answer.status)
            response.headers.extend(kept)
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    def _inner_path(self, path: str) -> str | None:
        """Where a path of the host is at the gateway; None if it belongs to another site."""
        if path.startswith(f"{self.path}/"):
            return path.removeprefix(self.path)
        well_known = ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource")
        mine = any(path.startswith(f"{each}{self.path}") for each in well_known)
        return path if mine or path.startswith("/ui") else None
