"""Brings a state file to this version's format. The steps themselves are in `store/sql/migrations.py`.

`migrate` runs the missing steps in one transaction that holds the write lock from the version check on, so that any
number of processes may start at the same time.
"""

import sqlite3

from wicket_mcp.store.sql.changes import TABLE
from wicket_mcp.store.sql.migrations import FORMAT, MIGRATIONS, TooNew
from wicket_mcp.store.sqlite.transaction import transaction


def version_of(db: sqlite3.Connection) -> int:
    """The file's format; 0 for a new file. Raises TooNew."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise TooNew(version)
    return version


def migrate(db: sqlite3.Connection) -> None:
    """Bring the file to `FORMAT`. Takes no lock if it is already there. Raises TooNew."""
    if version_of(db) == FORMAT:
        return
    with transaction(db):
        db.execute(TABLE)
        for step in MIGRATIONS[version_of(db) :]:  # another process may have been quicker
            step(db)
        db.execute(f"PRAGMA user_version = {FORMAT}")
