"""A DNS server on loopback, over UDP and TCP, that answers questions for texts and addresses from tables."""

from importlib import import_module
from typing import Any

_dnslib: Any = import_module("dnslib")  # has no types
_server: Any = import_module("dnslib.server")


class Zone:
    """What the server knows; everything else does not exist."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.addresses: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.asked: list[str] = []
        self.refusing = False

    def resolve(self, request: Any, handler: Any) -> Any:
        reply = request.reply()
        name = str(request.q.qname).rstrip(".").lower()
        self.asked.append(f"{handler.protocol} {name}")
        if self.refusing:
            reply.header.rcode = 5
            return reply
        while name in self.aliases:
            reply.add_answer(*_dnslib.RR.fromZone(f"{name}. 60 CNAME {self.aliases[name]}."))
            name = self.aliases[name]
        address = self.addresses.get(name, "")
        if address and request.q.qtype == (_dnslib.QTYPE.AAAA if ":" in address else _dnslib.QTYPE.A):
            kind = "AAAA" if ":" in address else "A"
            reply.add_answer(*_dnslib.RR.fromZone(f"{name}. 60 {kind} {address}"))
        for text in self.records.get(name, ()) if request.q.qtype == _dnslib.QTYPE.TXT else ():
            data = text.encode()
            parts = [data[at : at + 255] for at in range(0, len(data), 255)]
            reply.add_answer(_dnslib.RR(f"{name}.", _dnslib.QTYPE.TXT, rdata=_dnslib.TXT(parts), ttl=60))
        if name not in self.records and not address:
            reply.header.rcode = 3
        if handler.protocol == "udp" and len(reply.pack()) > 512:
            # Cuts what is too long for a datagram of the old size, as servers do for those who ask for no more.
            reply.rr, reply.header.tc = [], 1
        return reply


class Names:
    """A running DNS server."""

    def __init__(self) -> None:
        self.zone = Zone()
        quiet = _server.DNSLogger("-request,-reply,-truncated,-error")
        options: dict[str, Any] = {"address": "127.0.0.1", "logger": quiet}
        self._udp, self._tcp = self._bound(options)
        self.port: int = self._udp.server.server_address[1]

    def _bound(self, options: dict[str, Any]) -> tuple[Any, Any]:
        """Both servers on one port: a port that is free for UDP may be taken for TCP, so another one is tried."""
        while True:
            udp = _server.DNSServer(self.zone, port=0, **options)
            try:
                return udp, _server.DNSServer(self.zone, port=udp.server.server_address[1], tcp=True, **options)
            except OSError:
                udp.server.server_close()

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
