"""Counts connections, in total and for each address, and decides whether another one is accepted.

The limit comes from this process's file descriptors: half of them stay free for servers, scripts and files. One address
gets at most half of the connections, so a single client cannot lock the others out. Called by `http_connection.py`.
"""

from collections import Counter

MOST = 8192
LEAST = 64


class Connections:
    """See the module's docstring. `rejected` counts the rejected connections."""

    def __init__(self, most: int | None = None, most_per_address: int | None = None) -> None:
        self.most = _by_descriptors() if most is None else most
        self.most_per_address = max(1, self.most // 2) if most_per_address is None else most_per_address
        self.rejected = 0
        self._open: Counter[str] = Counter()
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def __repr__(self) -> str:
        return f"<Connections {self._total} of {self.most}, {len(self._open)} addresses, {self.rejected} rejected>"

    def enter(self, address: str) -> bool:
        """Whether a connection from `address` is accepted; an accepted connection must `leave` once."""
        if self._total >= self.most or self._open[address] >= self.most_per_address:
            self.rejected += 1
            return False
        self._total += 1
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._total -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


def _by_descriptors() -> int:
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(LEAST, min(MOST, soft // 2))
