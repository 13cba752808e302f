"""Accepted definitions. Implements PinStore."""

from collections.abc import Sequence

from wicket_mcp.store.model import PINS_OF_NAME, PINS_OF_SERVER, StoredPin
from wicket_mcp.store.sql.changes import number_of
from wicket_mcp.store.sql.part import Database, Part, upsert

_PIN = "server, source, kind, name, digest, definition, approved_by, at"


class SqlPins(Part):
    async def pins(self, server: str = "") -> Sequence[StoredPin]:
        where, values = ("WHERE server = ?", [server]) if server else ("", [])
        text = f"SELECT {_PIN} FROM pin {where} ORDER BY server, kind, name, at, rowid"  # noqa: S608  (our own words)
        return [StoredPin(*row) for row in await self._rows(text, *values)]

    async def new_pins(self, after: int) -> tuple[int, Sequence[StoredPin]]:
        base = self._connection.base
        text = f"SELECT number, {_PIN} FROM pin WHERE number > ? ORDER BY server, kind, name, at, rowid"  # noqa: S608
        rows = await self._rows(text, after - base)
        last = max((base + number for number, *_ in rows), default=after)
        return last, [StoredPin(*row) for _, *row in rows]

    async def save_pins(self, pins: Sequence[StoredPin]) -> None:
        def save(db: Database) -> None:
            number = number_of(db, "pin")
            for pin in pins:
                identity = (pin.server, pin.source, pin.kind, pin.name)
                row = (*identity, pin.digest, pin.definition, pin.approved_by, pin.at, number)
                db.execute(upsert("pin", f"{_PIN}, number", "server, source, kind, name, digest"), row)
                db.execute(
                    """DELETE FROM pin WHERE server = ? AND source = ? AND kind = ? AND name = ? AND rowid NOT IN (
                       SELECT rowid FROM pin WHERE server = ? AND source = ? AND kind = ? AND name = ?
                       ORDER BY at DESC, rowid DESC LIMIT ?)""",
                    (*identity, *identity, PINS_OF_NAME),
                )
            for origin in {(pin.server, pin.source) for pin in pins}:
                db.execute(
                    """DELETE FROM pin WHERE server = ? AND source = ? AND rowid IN (
                       SELECT rowid FROM pin WHERE server = ? AND source = ? AND kind != 'package'
                       ORDER BY at DESC, rowid DESC LIMIT ? OFFSET ?)""",
                    (*origin, *origin, len(pins), PINS_OF_SERVER),
                )

        await self._connection.write("pin", save)
