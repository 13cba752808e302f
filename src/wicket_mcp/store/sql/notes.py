"""Small named texts. Implements NoteStore."""

from wicket_mcp.store.sql.part import Part, upsert


class SqlNotes(Part):
    async def load_note(self, key: str) -> str | None:
        row = await self._row("SELECT text FROM note WHERE key = ?", key)
        return row[0] if row else None

    async def save_note(self, key: str, text: str) -> None:
        await self._change(upsert("note", "key, text", "key"), key, text)
