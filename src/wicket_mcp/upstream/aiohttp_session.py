"""The aiohttp session: one HTTP request and its answer. Only this module and `egress_connector` know the library.

Turns every connection failure into an error that says whether anything was sent. Bodies come in pieces, decompressed up
to a limit. Imported on first use only, by `egress.py`.
"""

import asyncio
import io
from collections.abc import Mapping
from urllib.parse import urljoin

import aiohttp

from wicket_mcp.errors import Crashed, ProtocolViolation, Unavailable, UpstreamError
from wicket_mcp.telemetry.redact import mask_url
from wicket_mcp.upstream.egress import MAY_HAVE_ACTED, Endpoint, in_words
from wicket_mcp.upstream.egress_connector import CheckedSockets
from wicket_mcp.upstream.egress_rules import EgressRules
from wicket_mcp.upstream.inflate import CompressionError, Inflater

CONNECT_LIMIT = 10.0  # seconds; if the peer does not accept, nothing was sent, so a retry is safe
FINISH_GRACE = 1.0  # seconds for a stream to end by itself after its answer has arrived
YIELD_AFTER = 1024 * 1024  # decompressed bytes after which other tasks get a turn
REDIRECTS = 2
_CHALLENGES, _LONGEST_CHALLENGE = 8, 4096  # lines and characters of `WWW-Authenticate` that are read
_LARGE = 1024 * 1024  # above this aiohttp wants a file, which it sends in parts

_MOVED = frozenset((301, 302, 303, 307, 308))


class AiohttpSession:
    """The session that all upstreams share. The pool limits concurrency, so there is no limit here."""

    def __init__(self, rules: EgressRules | None = None) -> None:
        self._rules = rules
        self.finishing: set[HttpAnswer] = set()
        self._sockets = None if rules is None else CheckedSockets(rules)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0) if self._sockets is None else self._sockets.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT),
            auto_decompress=False,
            trust_env=False,
        )

    def recheck(self) -> None:
        """Close the connections that the rules no longer allow."""
        if self._sockets is not None:
            self._sockets.recheck()

    async def close(self) -> None:
        for answer in list(self.finishing):
            answer.abandon()
        await self._session.close()

    async def send(
        self, method: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None
    ) -> "HttpAnswer":
        url, lasting = endpoint.url, endpoint.url
        for redirects_left in range(REDIRECTS, -1, -1):
            response = await self._once(method, url, endpoint, headers, body)
            if response.status not in _MOVED:
                return HttpAnswer(self, endpoint, response, lasting)
            location = response.headers.get("Location", "")
            response.close()
            target = endpoint.at(url).resolve(location) if response.status >= 307 and location else None
            if target is None or not redirects_left:
                raise _redirect_error(endpoint, response.status, location)
            if response.status == 308 or target.rstrip("/") == url.rstrip("/"):
                lasting = target
            url = target
        raise AssertionError("unreachable: the last turn of the loop returns or raises")

    async def _once(
        self, method: str, url: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
        if self._rules is not None:
            self._rules.check_url(url)
        try:
            return await self._session.request(method, url, data=data, headers=headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise _connect_error(endpoint, problem) from None
        except aiohttp.ClientConnectionError as problem:
            raise _connection_lost_error(endpoint, problem) from None
        except aiohttp.ClientResponseError:
            message = f"Server '{endpoint.server}' at {endpoint.shown} does not speak HTTP."
            hint = "Check host and port in its URL, and http against https."
            raise ProtocolViolation(endpoint.server, message, hint=hint) from None
        except (aiohttp.ClientError, ValueError):
            message = f"Server '{endpoint.server}' cannot be asked: its URL or one of its headers is malformed."
            hint = "Check 'url' (http or https, credentials not given twice) and 'headers' (no line breaks)."
            raise Unavailable(endpoint.server, message, hint=hint) from None


class HttpAnswer:
    """An answer whose head has arrived (see `egress.Answer`)."""

    __slots__ = (
        "_done",
        "_grace",
        "_inflater",
        "_response",
        "_session",
        "_unbroken",
        "endpoint",
        "media_type",
        "status",
        "url",
    )

    def __init__(self, session: AiohttpSession, endpoint: Endpoint, response: aiohttp.ClientResponse, url: str) -> None:
        self._session = session
        self.endpoint = endpoint
        self.status = response.status
        self.url = url
        headers = response.headers
        self.media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        self._response = response
        self._done = False
        self._grace: asyncio.TimerHandle | None = None
        self._unbroken = 0
        encoding = headers.get("Content-Encoding", "").strip().lower()
        self._inflater: Inflater | None = None
        if encoding and encoding != "identity":
            try:
                self._inflater = Inflater(encoding)
            except CompressionError as problem:
                response.close()
                raise self._decompression_error(problem) from None

    def header(self, name: str) -> str:
        return self._response.headers.get(name, "")

    @property
    def challenges(self) -> str:
        lines = self._response.headers.getall("WWW-Authenticate", ())
        return ", ".join(lines[:_CHALLENGES])[:_LONGEST_CHALLENGE]

    async def read(self) -> bytes:
        try:
            if self._inflater is None:
                return await self._response.content.readany()
            return await self._read_inflated(self._inflater)
        except (aiohttp.ClientError, OSError, RuntimeError) as problem:  # RuntimeError: the client was closed
            raise _connection_lost_error(self.endpoint, problem) from None
        except CompressionError as problem:
            raise self._decompression_error(problem) from None

    async def body(self, limit: int) -> bytes:
        if (self._response.content_length or 0) > limit:
            raise self._size_error(limit)
        whole = await self.read()
        pieces, size = [whole], len(whole)
        while size <= limit and (piece := await self.read()):
            pieces.append(piece)
            size += len(piece)
        if size > limit:
            raise self._size_error(limit)
        self._done = True
        return whole if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        self._done = True
        content = self._response.content
        if not content.is_eof():
            # aiohttp reuses the connection after the end of the stream, which is usually in the next packet.
            self._grace = asyncio.get_running_loop().call_later(FINISH_GRACE, self.abandon)
            self._session.finishing.add(self)
            content.on_eof(self._on_finished)

    def close(self) -> None:
        if not self._done:
            self._done = True
            self._response.close()

    def abandon(self) -> None:
        """Close the answer now: finishing took too long, or everything is being closed."""
        self._on_finished()
        self._response.close()

    def _on_finished(self) -> None:
        self._session.finishing.discard(self)
        if self._grace:
            self._grace.cancel()

    async def _read_inflated(self, inflater: Inflater) -> bytes:
        while not (piece := inflater.pull()):
            data = await self._response.content.readany()
            self._unbroken = 0
            if not data:
                if not inflater.complete:
                    raise CompressionError("its compressed data ends too early")
                return b""
            inflater.push(data)
        self._unbroken += len(piece)
        if self._unbroken > YIELD_AFTER:
            self._unbroken = 0
            await asyncio.sleep(0)
        return piece

    def _decompression_error(self, problem: CompressionError) -> ProtocolViolation:
        endpoint = self.endpoint
        message = f"The answer of server '{endpoint.server}' at {endpoint.shown} cannot be read: {problem}."
        hint = "The server, or a proxy before it, has a defect."
        return ProtocolViolation(endpoint.server, message, hint=hint)

    def _size_error(self, limit: int) -> ProtocolViolation:
        server = self.endpoint.server
        message = f"Server '{server}' sent a message larger than {in_words(limit)}; it was not read."
        return ProtocolViolation(server, message, hint="Ask for less, or raise the message limit.")


def _redirect_error(endpoint: Endpoint, status: int, location: str) -> Unavailable:
    try:
        target = mask_url(urljoin(endpoint.url, location))
    except ValueError:
        target = "something that is not an address"
    message = (
        f"Server '{endpoint.server}' at {endpoint.shown} redirects (HTTP {status}) to {target}, "
        "and Wicket does not follow."
    )
    hint = "If that is the server you mean, put its address into the configuration."
    return Unavailable(endpoint.server, message, hint=hint)


def _connection_lost_error(endpoint: Endpoint, problem: BaseException) -> Crashed:
    how = "was reset" if isinstance(problem, ConnectionResetError) else "ended"
    message = f"The connection to server '{endpoint.server}' at {endpoint.shown} {how} before it answered."
    return Crashed(endpoint.server, message, hint=MAY_HAVE_ACTED)


def _connect_error(endpoint: Endpoint, problem: Exception) -> UpstreamError:
    if isinstance(problem, aiohttp.ClientConnectorDNSError):
        fault, hint = "has a host name that cannot be resolved", "Check its URL and the network."
    elif isinstance(problem, aiohttp.ClientConnectorCertificateError):
        reason = getattr(problem.certificate_error, "verify_message", "") or "it cannot be verified"
        fault = f"has a certificate that is not accepted ({reason})"
        hint = "Check the host name in its URL, and that the authority that signed it is installed."
    elif isinstance(problem, aiohttp.ClientConnectorSSLError):
        fault, hint = (
            "offers no TLS connection",
            "Check whether its URL should begin with http:// instead of https://.",
        )
    elif isinstance(problem, aiohttp.ConnectionTimeoutError):
        fault = f"did not accept a connection within {CONNECT_LIMIT:.0f} seconds"
        hint = "Check host and port in its URL, and the firewall."
    else:
        fault, hint = "cannot be connected to", "Check that it is running, and host and port in its URL."
    return Unavailable(endpoint.server, f"Server '{endpoint.server}' at {endpoint.shown} {fault}.", hint=hint)
