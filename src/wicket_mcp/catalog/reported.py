"""Changes that servers have reported and that were not read yet. Pure.

A server reports a change when it says so or when a new connection to it begins: it may be another version of it. A
reading that began after the report answers it. The catalogue asks here whether a call must wait for such a reading.
"""


class Reported:
    """The number of each server's reports, and how many of them are answered."""

    def __init__(self) -> None:
        self._reports: dict[str, int] = {}
        self._answered: dict[str, int] = {}
        self._last: dict[str, float] = {}
        """The time of each server's last report."""

    def add(self, server: str, at: float) -> None:
        """A report came, at this time by the clock of whoever lists the server."""
        self._reports[server] = self.number(server) + 1
        self._last[server] = at

    def number(self, server: str) -> int:
        return self._reports.get(server, 0)

    def is_open(self, server: str, number: int | None = None) -> bool:
        """Whether the reports of a server, up to this number of them, still wait for a reading."""
        return self._answered.get(server, 0) < (self.number(server) if number is None else number)

    def answer(self, server: str, number: int) -> None:
        """A reading that began after so many reports has ended well."""
        self._answered[server] = max(number, self._answered.get(server, 0))

    def answer_all(self, server: str, listed_at: float) -> bool:
        """Another process has listed the server at this time; whether that was after the last report."""
        if listed_at < self._last.get(server, 0.0):
            return False
        self.answer(server, self.number(server))
        return True

    def forget(self, server: str) -> None:
        for table in (self._reports, self._answered, self._last):
            table.pop(server, None)
