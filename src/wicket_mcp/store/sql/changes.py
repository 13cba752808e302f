"""Which areas of the state have changed: a number for each in the table `wicket_change`, the same for every engine.

Every write to a watched area raises the area's number, in the same transaction. A row of a listing or a pin has the
number of the change that wrote it, so that others read only what is new. An engine finds out that numbers have grown in
its own way (`store/sqlite/` by the file's version, `store/postgres/` by notices) and publishes them here.
"""

from collections.abc import Callable, Iterable

from wicket_mcp.store.sql.part import Database

WATCHED = frozenset(
    {"api_key", "listing", "managed_server", "note", "oauth_grant", "pin", "standing_approval", "vault_key"}
)
"""The areas of which processes keep something in memory."""
TABLE = "CREATE TABLE IF NOT EXISTS wicket_change (area TEXT PRIMARY KEY, number BIGINT)"
NUMBERS = "SELECT area, number FROM wicket_change"


def count_change(db: Database, area: str) -> bool:
    """Raise the number of an area before anything else in the transaction; whether it is watched."""
    if area in WATCHED:
        text = (
            "INSERT INTO wicket_change VALUES (?, 1) ON CONFLICT (area) DO UPDATE SET number = wicket_change.number + 1"
        )
        db.execute(text, (area,))
    return area in WATCHED


def number_of(db: Database, area: str) -> int:
    """The number of the change that the present transaction makes to an area."""
    (number,) = db.execute("SELECT number FROM wicket_change WHERE area = ?", (area,)).fetchone()
    return number


class Changes:
    """The numbers that this process knows. Belongs to an event loop."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._listeners: list[Callable[[str], object]] = []

    def number(self, areas: Iterable[str]) -> int:
        """Grows whenever one of these areas changes."""
        return sum(self._numbers.get(area, 0) for area in areas)

    def listen(self, hear: Callable[[str], object]) -> Callable[[], None]:
        """Call `hear` with the area of every change, by any process, until the returned function is called."""
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear)

    def publish(self, area: str, number: int) -> None:
        """An area has had this number of changes; earlier numbers may come late."""
        if number > self._numbers.get(area, 0):
            self._numbers[area] = number
            for hear in tuple(self._listeners):
                hear(area)

    def begin_again(self) -> None:
        """The numbers are counted anew: the state is another one."""
        self._numbers.clear()
