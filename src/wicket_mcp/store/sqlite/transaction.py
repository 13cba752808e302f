"""A write transaction: takes the write lock at once, and leaves nothing open however it ends."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """BEGIN IMMEDIATE … COMMIT. A deferred one that turns into a writer fails at once when another process writes."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has rolled back by itself after some faults, a full disk for one
            db.execute("ROLLBACK")
        raise
