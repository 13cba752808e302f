"""Calls that wait for a person's approval, and standing approvals. Implements ApprovalStore."""

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StandingApproval, StoredApproval
from wicket_mcp.store.sql.part import Database, Part, insert

_APPROVAL = """id, principal, server, tool, arguments_digest, policy, words, asked_at, expires_at, approved_by, spent,
    arguments, who"""
_STANDING = "id, principal, server, tool, conditions, approved_by, at"
_SAME_CALL = "principal = ? AND server = ? AND tool = ? AND arguments_digest = ? AND policy = ?"


class SqlApprovals(Part):
    async def save_approval(self, approval: StoredApproval) -> None:
        def save(db: Database) -> None:
            db.execute("DELETE FROM approval WHERE expires_at < ?", (min(approval.asked_at, steady_time()),))
            db.execute(insert("approval", _APPROVAL), astuple(approval))

        await self._connection.write("approval", save)

    async def approvals(self, at: float) -> Sequence[StoredApproval]:
        text = f"SELECT {_APPROVAL} FROM approval WHERE expires_at >= ? AND spent = 0 ORDER BY asked_at"  # noqa: S608
        return [_approval(row) for row in await self._rows(text, at)]

    async def approve(self, approval: str, by: str, at: float) -> StoredApproval | None:
        def decide(db: Database) -> StoredApproval | None:
            changed = db.execute(
                """UPDATE approval SET approved_by = ?
                   WHERE id = ? AND expires_at >= ? AND spent = 0 AND approved_by = ''""",
                (by, approval, at),
            ).rowcount
            row = db.execute(f"SELECT {_APPROVAL} FROM approval WHERE id = ?", (approval,)).fetchone()  # noqa: S608
            return _approval(row) if changed else None

        return await self._connection.write("approval", decide)

    async def withdraw(self, approval: str) -> None:
        def withdraw(db: Database) -> None:
            db.execute("DELETE FROM approval WHERE id = ?", (approval,))

        await self._connection.write("approval", withdraw)

    async def spend(self, call: StoredApproval, at: float) -> StoredApproval | None:
        identity = (call.principal, call.server, call.tool, call.arguments_digest, call.policy)

        def use(db: Database) -> StoredApproval | None:
            row = db.execute(
                f"""SELECT {_APPROVAL} FROM approval WHERE {_SAME_CALL} AND approved_by <> '' AND spent = 0
                    AND expires_at >= ? ORDER BY asked_at LIMIT 1""",  # noqa: S608  (our own words)
                (*identity, at),
            ).fetchone()
            if row is None:
                return None
            db.execute("UPDATE approval SET spent = 1 WHERE id = ?", (row[0],))
            return _approval(row)

        return await self._connection.write("approval", use)

    async def standing_approvals(self) -> Sequence[StandingApproval]:
        text = f"SELECT {_STANDING} FROM standing_approval ORDER BY at, rowid"  # noqa: S608  (our own words)
        return [StandingApproval(*row) for row in await self._rows(text)]

    async def save_standing_approval(self, approval: StandingApproval) -> None:
        def save(db: Database) -> None:
            text = f"{insert('standing_approval', _STANDING)} ON CONFLICT (id) DO NOTHING"
            db.execute(text, astuple(approval))

        await self._connection.write("standing_approval", save)

    async def revoke_standing_approval(self, approval: str) -> StandingApproval | None:
        def revoke(db: Database) -> StandingApproval | None:
            text = f"SELECT {_STANDING} FROM standing_approval WHERE id = ?"  # noqa: S608  (our own words)
            row = db.execute(text, (approval,)).fetchone()
            db.execute("DELETE FROM standing_approval WHERE id = ?", (approval,))
            return StandingApproval(*row) if row is not None else None

        return await self._connection.write("standing_approval", revoke)

    def standing_approvals_version(self) -> int | None:
        return self._connection.version("standing_approval")


def _approval(row: tuple[object, ...]) -> StoredApproval:
    return replace(StoredApproval(*row), spent=bool(row[10]))  # type: ignore[arg-type]
