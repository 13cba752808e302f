"""Which tools principals called after which searches. Implements ChoiceStore."""

from collections.abc import Sequence

from wicket_mcp.store.model import StoredChoice
from wicket_mcp.store.sql.part import Database, Part, insert

_CHOICE = "principal, query, tool, weight, at"


class SqlChoices(Part):
    async def choices(self, principal: str) -> Sequence[StoredChoice]:
        text = f"SELECT {_CHOICE} FROM choice WHERE principal = ? ORDER BY at DESC, rowid DESC"  # noqa: S608
        return [StoredChoice(*row) for row in await self._rows(text, principal)]

    async def add_choice(self, choice: StoredChoice, most: int) -> None:
        def add(db: Database) -> None:
            db.execute(
                f"""{insert("choice", _CHOICE)} ON CONFLICT (principal, query, tool) DO UPDATE SET
                    weight = choice.weight + excluded.weight,
                    at = CASE WHEN choice.at > excluded.at THEN choice.at ELSE excluded.at END""",
                (choice.principal, choice.query, choice.tool, choice.weight, choice.at),
            )
            db.execute(
                """DELETE FROM choice WHERE principal = ? AND rowid NOT IN (
                   SELECT rowid FROM choice WHERE principal = ? ORDER BY at DESC, rowid DESC LIMIT ?)""",
                (choice.principal, choice.principal, most),
            )

        await self._connection.write("choice", add)
