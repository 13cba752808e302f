"""One question to a DNS resolver: the TXT records of a name, or its addresses.

Over UDP, and over TCP when the answer is too long for it. Only such a question is ever asked, which is why this
is not a dependency: a full resolver library is a hundred times the code and slows every start. The resolver is
trusted to follow aliases; what it sends is parsed with every bound checked.
"""

import asyncio
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from wicket_mcp.errors import BadArguments, ConfigError
from wicket_mcp.upstream.egress_rules import Found, Lookup

A, CNAME, TXT, AAAA, IN = 1, 5, 16, 28, 1
TIMEOUT = 3.0  # seconds for each resolver
_HEAD = struct.Struct(">HHHHHH")
_RESOLV_CONF = Path("/etc/resolv.conf")
_FALLBACK = ("1.1.1.1", "9.9.9.9")
_MAX_JUMPS = 32
_TRUNCATED = 0x0200


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
            host, _, rest = text[1:].partition("]")
            port = rest.removeprefix(":") or "53"
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


def system_resolvers() -> tuple[Resolver, ...]:
    """Those of this machine, or public ones where it names none."""
    try:
        lines = _RESOLV_CONF.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1]
    found: list[Resolver] = []
    for name in [*named, *_FALLBACK]:
        try:
            found.append(Resolver(str(ip_address(name.partition("%")[0]))))
        except ValueError:
            continue
    return tuple(found[: max(1, len(named))])


async def txt_records(name: str, resolvers: Sequence[Resolver]) -> list[str]:
    """The TXT records of `name`; none where the name does not exist. Raises LookupFailed."""
    return await _ask_each(name, TXT, resolvers)


def lookup(resolvers: Sequence[Resolver]) -> Lookup:
    """Finds the addresses of names by asking these resolvers, and nobody else."""

    async def addresses(name: str, port: int) -> list[Found]:
        try:
            families = (socket.AF_INET, A), (socket.AF_INET6, AAAA)
            found = [(family, text) for family, kind in families for text in await _ask_each(name, kind, resolvers)]
        except (LookupFailed, BadArguments) as failed:
            raise OSError(str(failed)) from None
        if not found:
            raise OSError(f"{name} has no address")
        return found

    return addresses


async def _ask_each(name: str, kind: int, resolvers: Sequence[Resolver]) -> list[str]:
    problem = LookupFailed("no resolver is configured")
    for resolver in resolvers:
        try:
            return await _ask(name, kind, resolver)
        except LookupFailed as failed:
            problem = failed
    raise problem


async def _ask(name: str, kind: int, resolver: Resolver) -> list[str]:
    number = secrets.randbelow(65536)
    query = _HEAD.pack(number, 0x0100, 1, 0, 0, 0) + _question(name, kind)
    where = f"{resolver.host}:{resolver.port}"
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await _over_udp(query, resolver)
            if _flags(answer) & _TRUNCATED:
                answer = await _over_tcp(query, resolver)
        return _answers(answer, name, kind)
    except TimeoutError:
        raise LookupFailed(f"the resolver {where} did not answer within {TIMEOUT:g} s") from None
    except (OSError, asyncio.IncompleteReadError) as failed:
        raise LookupFailed(f"the resolver {where} cannot be reached ({failed})") from None
    except (ValueError, IndexError, struct.error):
        raise LookupFailed(f"the resolver {where} gave an answer that cannot be read") from None


def _question(name: str, kind: int) -> bytes:
    labels = [label.encode("ascii") for label in name.rstrip(".").split(".")]
    if not all(0 < len(label) < 64 for label in labels) or sum(len(label) + 1 for label in labels) > 254:
        raise BadArguments(f"'{name}' is no domain name.")
    return b"".join(bytes([len(label)]) + label for label in labels) + struct.pack(">BHH", 0, kind, IN)


class _Datagram(asyncio.DatagramProtocol):
    """Waits for the answer to one query; whatever else arrives at the port is passed over."""

    def __init__(self, query: bytes) -> None:
        self._query = query
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self.answer.done() and _belongs(data, self._query):
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


async def _over_udp(query: bytes, resolver: Resolver) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: _Datagram(query), remote_addr=(resolver.host, resolver.port)
    )
    try:
        transport.sendto(query)
        return await protocol.answer
    finally:
        transport.close()


async def _over_tcp(query: bytes, resolver: Resolver) -> bytes:
    reader, writer = await asyncio.open_connection(resolver.host, resolver.port)
    try:
        writer.write(struct.pack(">H", len(query)) + query)
        (length,) = struct.unpack(">H", await reader.readexactly(2))
        answer = await reader.readexactly(length)
    finally:
        writer.close()
    if not _belongs(answer, query):
        raise ValueError("an answer to another question")
    return answer


def _belongs(answer: bytes, query: bytes) -> bool:
    """Whether it is a response to our very question: number and question must both be ours."""
    if len(answer) < _HEAD.size or answer[:2] != query[:2] or not answer[2] & 0x80:
        return False
    if _flags(answer) & _TRUNCATED and answer[4:6] == b"\0\0":
        return True  # some servers leave the question out as well; it is asked again over TCP
    question = query[_HEAD.size :]
    return answer[_HEAD.size : _HEAD.size + len(question)].lower() == question.lower()


def _flags(message: bytes) -> int:
    return _HEAD.unpack_from(message)[1]


def _answers(message: bytes, name: str, asked: int) -> list[str]:
    _, flags, questions, answers, _, _ = _HEAD.unpack_from(message)
    code = flags & 0x000F
    if code == 3:  # no such name
        return []
    if code:
        raise LookupFailed(f"the resolver answered with error {code}")
    at = _HEAD.size
    for _ in range(questions):
        _, at = _name(message, at)
        at += 4
    wanted, found = name.rstrip(".").lower(), list[str]()
    for _ in range(answers):
        owner, at = _name(message, at)
        kind, family, _, length = struct.unpack_from(">HHIH", message, at)
        at += 10
        if at + length > len(message):
            raise ValueError("a record beyond the end")
        if family == IN and owner == wanted and kind == CNAME:
            wanted, _ = _name(message, at)
        elif family == IN and owner == wanted and kind == asked:
            found.append(_READERS[kind](message[at : at + length]))
        at += length
    return found


def _name(message: bytes, at: int) -> tuple[str, int]:
    """The name at an offset, and the offset behind it. Pointers only count so often."""
    labels: list[str] = []
    end = -1
    for _ in range(_MAX_JUMPS + 128):
        length = message[at]
        if length & 0xC0 == 0xC0:
            end = at + 2 if end < 0 else end
            at = struct.unpack_from(">H", message, at)[0] & 0x3FFF
        elif length == 0:
            return ".".join(labels).lower(), at + 1 if end < 0 else end
        else:
            labels.append(message[at + 1 : at + 1 + length].decode("latin-1"))
            at += 1 + length
    raise ValueError("a name without end")


def _text(data: bytes) -> str:
    """The strings of one TXT record, joined."""
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        length = data[at]
        parts.append(data[at + 1 : at + 1 + length])
        at += 1 + length
    return b"".join(parts).decode("utf-8", "replace")


def _address(data: bytes) -> str:
    return str(ip_address(data))


_READERS: dict[int, Callable[[bytes], str]] = {A: _address, AAAA: _address, TXT: _text}
