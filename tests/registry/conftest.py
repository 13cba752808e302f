"""A registry over a state file of its own, a clock that the test turns, and a DNS server on loopback."""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest
from dnslib import QTYPE, RR, TXT  # pyright: ignore[reportMissingTypeStubs]
from dnslib.server import BaseResolver, DNSHandler, DNSLogger, DNSServer  # pyright: ignore[reportMissingTypeStubs]

from wicket.config.model import Config, LimitsConfig
from wicket.core.catalog import Catalogue
from wicket.core.policy import Policy
from wicket.registry.desk import Desk
from wicket.store.registry import SqliteRegistry
from wicket.store.sqlite import SqliteStore
from wicket.upstream.pool import Pool


class Clock:
    """Time as the test wants it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += hours * 3600


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Zone(BaseResolver):  # pyright: ignore[reportUntypedBaseClass]
    """Answers TXT questions from a table, over UDP and TCP; everything else does not exist."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        self.asked: list[str] = []
        self.refusing = False

    def resolve(self, request, handler):  # noqa: ANN001, ANN201  # pyright: ignore
        reply = request.reply()  # pyright: ignore
        name = str(request.q.qname).rstrip(".").lower()  # pyright: ignore
        self.asked.append(f"{handler.protocol} {name}")  # pyright: ignore
        if self.refusing:
            reply.header.rcode = 5  # pyright: ignore
            return reply  # pyright: ignore
        while name in self.aliases:
            reply.add_answer(*RR.fromZone(f"{name}. 60 CNAME {self.aliases[name]}."))  # pyright: ignore
            name = self.aliases[name]
        for text in self.records.get(name, ()):
            parts = [text[at : at + 255].encode() for at in range(0, len(text), 255)]
            reply.add_answer(RR(f"{name}.", QTYPE.TXT, rdata=TXT(parts), ttl=60))  # pyright: ignore
        if name not in self.records:
            reply.header.rcode = 3  # pyright: ignore
        return reply  # pyright: ignore


class Handler(DNSHandler):  # pyright: ignore[reportUntypedBaseClass]
    """Cuts what is too long for a datagram of the old size, as servers do for those who ask for no more."""

    udplen = 512


class Names:
    """A running DNS server."""

    def __init__(self) -> None:
        self.zone = Zone()
        quiet = DNSLogger("-request,-reply,-truncated,-error")
        self._udp = DNSServer(self.zone, address="127.0.0.1", port=0, logger=quiet, handler=Handler)
        self.port: int = self._udp.server.server_address[1]
        self._tcp = DNSServer(self.zone, address="127.0.0.1", port=self.port, tcp=True, logger=quiet, handler=Handler)

    def __enter__(self) -> "Names":
        self._udp.start_thread()
        self._tcp.start_thread()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._udp, self._tcp):
            server.stop()
            server.server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@pytest.fixture
def names() -> Iterator[Names]:
    with Names() as running:
        yield running


OpenDesk = Callable[..., Desk]


@pytest.fixture
async def open_desk(tmp_path: Path, clock: Clock) -> AsyncGenerator[OpenDesk]:
    """Makes a registry; all of one test share their state file, as after a restart."""
    opened: list[tuple[Desk, Catalogue, Pool, SqliteStore]] = []

    def make(**options: object) -> Desk:
        config = Config.from_dict({"servers": {}, **options})
        store = SqliteStore(tmp_path / "state" / "wicket.db")
        pool = Pool((), on_event=lambda *_: None, max_message=2**20, max_call=30)
        catalogue = Catalogue((), Policy(()), pool, store, LimitsConfig())
        desk = Desk(config, store, SqliteRegistry(store), pool, catalogue, clock)
        opened.append((desk, catalogue, pool, store))
        return desk

    yield make
    for desk, catalogue, pool, store in opened:
        await desk.close()
        await catalogue.close()
        await pool.close()
        await store.close()
