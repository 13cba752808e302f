"""Which tools principals called after which searches. Implements ChoiceStore."""

import sqlite3
from collections.abc import Sequence

from wicket_mcp.store.model import StoredChoice
from wicket_mcp.store.sqlite.connection import Part


class SqliteChoices(Part):
    async def choices(self, principal: str) -> Sequence[StoredChoice]:
        text = "SELECT principal, query, tool, weight, at FROM choice WHERE principal = ? ORDER BY at DESC, rowid DESC"
        return [StoredChoice(*row) for row in await self._rows(text, principal)]

    async def add_choice(self, choice: StoredChoice, most: int) -> None:
        def add(db: sqlite3.Connection) -> None:
            db.execute(
                """INSERT INTO choice VALUES (?, ?, ?, ?, ?) ON CONFLICT (principal, query, tool)
                   DO UPDATE SET weight = weight + excluded.weight, at = max(at, excluded.at)""",
                (choice.principal, choice.query, choice.tool, choice.weight, choice.at),
            )
            db.execute(
                """DELETE FROM choice WHERE principal = ? AND rowid NOT IN (
                   SELECT rowid FROM choice WHERE principal = ? ORDER BY at DESC, rowid DESC LIMIT ?)""",
                (choice.principal, choice.principal, most),
            )

        await self._connection.write(add)
