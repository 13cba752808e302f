"""Very many clients in one process, as cheaply as Python can: sockets, epoll and prepared bytes, no parser, no tasks.

    python callers.py PORT CLIENTS SETTLE SECONDS < REQUEST

Each client has a connection of its own and sends the same request again as soon as it is answered. Whoever is turned
away (503) comes back after the time that the answer names, whoever loses the connection after a moment. When all have
been answered once, and SETTLE seconds later, it writes `begin`; at the end one line of JSON: what became of the calls
of the last SECONDS, how many seconds each took that was answered, and this process' own processor time. Linux only.
"""

import heapq
import json
import re
import select
import socket
import sys
import time
from collections import Counter

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
RETRY = re.compile(rb"retry-after: (\d+)", re.IGNORECASE)
LOST = 0.2  # seconds after which a client connects again


class Caller:
    """One client and its connection."""

    __slots__ = ("answered", "data", "number", "sent", "sock")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sock: socket.socket | None = None
        self.data = b""
        self.sent = 0.0
        self.answered = False


class Callers:
    """All of them, on one epoll."""

    def __init__(self, port: int, clients: int, request: bytes) -> None:
        self._address = ("127.0.0.1", port)
        self._request = request
        self._epoll = select.epoll()
        self._by_descriptor: dict[int, Caller] = {}
        self._later: list[tuple[float, int]] = [(0.0, number) for number in range(clients)]
        self._callers = [Caller(number) for number in range(clients)]
        self.begin = float("inf")
        self.waiting = clients
        """Clients that have not been answered at all."""
        self.outcomes: Counter[str] = Counter()
        self.latencies: list[float] = []

    def turn(self) -> None:
        """Hear what has come, send what is due."""
        now = time.perf_counter()
        while self._later and self._later[0][0] <= now:
            self._send(self._callers[heapq.heappop(self._later)[1]])
        wait = self._later[0][0] - now if self._later else 0.1
        for descriptor, _ in self._epoll.poll(max(0.0, min(wait, 0.1)), 4096):
            self._hear(self._by_descriptor[descriptor])

    def _send(self, caller: Caller) -> None:
        caller.data, caller.sent = b"", time.perf_counter()
        try:
            if caller.sock is None:
                caller.sock = socket.create_connection(self._address, 10)
                caller.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._by_descriptor[caller.sock.fileno()] = caller
                self._epoll.register(caller.sock.fileno(), select.EPOLLIN)
            caller.sock.send(self._request)
        except OSError:
            self._lose(caller)

    def _hear(self, caller: Caller) -> None:
        assert caller.sock is not None
        try:
            data = caller.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._lose(caller)
            return
        caller.data += data
        head = caller.data.find(b"\r\n\r\n")
        length = LENGTH.search(caller.data, 0, head) if head >= 0 else None
        if length is not None and len(caller.data) >= head + 4 + int(length[1]):
            self._end(caller)

    def _end(self, caller: Caller) -> None:
        """The answer is complete."""
        if not caller.answered:
            caller.answered = True
            self.waiting -= 1
        if caller.data.startswith(b"HTTP/1.1 503"):
            retry = RETRY.search(caller.data)
            pause = (int(retry[1]) if retry else 1) * (0.75 + caller.number % 50 / 100)
            self._note(caller, "turned away")
            if b"connection: close" in caller.data:
                self._close(caller)
            heapq.heappush(self._later, (time.perf_counter() + pause, caller.number))
            return
        good = caller.data.startswith(b"HTTP/1.1 200") and b'"isError":true' not in caller.data
        self._note(caller, "ok" if good else "failed")
        self._send(caller)

    def _lose(self, caller: Caller) -> None:
        self._note(caller, "failed")
        self._close(caller)
        heapq.heappush(self._later, (time.perf_counter() + LOST, caller.number))

    def _close(self, caller: Caller) -> None:
        if caller.sock is not None:
            del self._by_descriptor[caller.sock.fileno()]
            caller.sock.close()  # which takes it out of the epoll
            caller.sock = None

    def _note(self, caller: Caller, outcome: str) -> None:
        if caller.sent >= self.begin:
            self.outcomes[outcome] += 1
            if outcome == "ok":
                self.latencies.append(time.perf_counter() - caller.sent)


def main() -> None:
    port, clients, settle, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    callers = Callers(port, clients, sys.stdin.buffer.read())
    while callers.waiting:
        callers.turn()
    until = time.perf_counter() + settle
    while time.perf_counter() < until:
        callers.turn()
    sys.stdout.write("begin\n")
    sys.stdout.flush()
    cpu, callers.begin = time.process_time(), time.perf_counter()
    while time.perf_counter() < callers.begin + seconds:
        callers.turn()
    cpu = time.process_time() - cpu
    latencies = [round(latency, 5) for latency in callers.latencies]
    sys.stdout.write(json.dumps({"outcomes": callers.outcomes, "latencies": latencies, "cpu": cpu}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
