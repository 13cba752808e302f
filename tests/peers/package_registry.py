"""A package registry on a loopback address: npm packages, wheels and container images, changed as a test says.

In a thread of its own, for tests whose subject is a command that runs to its end.
"""

import base64
import gzip
import hashlib
import io
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from wicket_mcp.codec import encode


class PackageRegistry(ThreadingHTTPServer):
    """`archive` is the one version of every package, named `wheel` for pip; `manifest` the one of every image.

    `claimed` is the hash that it names for the archive, where that is not the archive's own. An image needs a token,
    which it gives to anybody.
    """

    archive: bytes = b""
    wheel: str = ""
    claimed: str = ""
    manifest: bytes = b'{"schemaVersion": 2}'
    named_digest: str = ""
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        """The paths of all requests."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def integrity(self) -> str:
        return self.claimed or f"sha512-{base64.b64encode(hashlib.sha512(self.archive).digest()).decode()}"

    def answer(self, path: str, authorization: str) -> tuple[int, bytes, dict[str, str]]:
        if path.endswith((".tgz", ".whl")):
            return 200, self.archive, {}
        if path.startswith("/simple/"):
            digest = self.claimed or hashlib.sha256(self.archive).hexdigest()
            link = f'<a href="/files/{self.wheel}#sha256={digest}">{self.wheel}</a>'
            return 200, link.encode(), {"Content-Type": "text/html"}
        if path.startswith("/token?"):
            return 200, encode({"token": "for-anybody"}), {}
        if path.startswith("/v2/"):
            if authorization != "Bearer for-anybody":
                challenge = f'Bearer realm="http://{self.host}/token",service="registry",scope="repository:pull"'
                return 401, b"{}", {"WWW-Authenticate": challenge}
            return 200, self.manifest, {"Docker-Content-Digest": self.named_digest} if self.named_digest else {}
        name = path.removeprefix("/").replace("%2f", "/").replace("%2F", "/")
        dist = {"tarball": f"http://{self.host}/archive.tgz", "integrity": self.integrity}
        version = {"name": name, "version": "1.2.3", "dist": dist}
        return 200, encode({"name": name, "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}), {}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, PackageRegistry)
        self.server.asked.append(self.path)
        status, body, headers = self.server.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing of it: stderr is a test's own."""


@contextmanager
def package_registry() -> Generator[PackageRegistry]:
    with PackageRegistry() as registry:
        thread = Thread(target=registry.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()


def npm_archive(text: str) -> bytes:
    """A package with one file, as npm packs it."""
    files = {"package/package.json": b'{"name": "@a/b", "version": "1.2.3"}', "package/index.js": text.encode()}
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
