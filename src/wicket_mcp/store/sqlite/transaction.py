"""A write transaction: takes the write lock at once, and leaves nothing open, whatever the outcome."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """BEGIN IMMEDIATE … COMMIT. A deferred transaction that becomes a writer fails at once if another process
    writes.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has already rolled back after some errors, such as a full disk
            db.execute("ROLLBACK")
        raise
