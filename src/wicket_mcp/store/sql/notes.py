"""Small named texts. Implements NoteStore."""

from wicket_mcp.store.sql.part import Database, Part, upsert


class SqlNotes(Part):
    async def load_note(self, key: str) -> str | None:
        row = await self._row("SELECT text FROM note WHERE key = ?", key)
        return row[0] if row else None

    async def save_note(self, key: str, text: str) -> None:
        def save(db: Database) -> None:
            db.execute(upsert("note", "key, text", "key"), (key, text))

        await self._connection.write("note", save)

    def notes_version(self) -> int | None:
        return self._connection.version("note")
