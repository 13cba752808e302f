"""A write transaction leaves nothing open, however it ends."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from wicket_mcp.store.sqlite.transaction import transaction


@pytest.fixture
def db(tmp_path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
        yield db


def test_a_commit_that_fails_is_rolled_back(db: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError), transaction(db):
        db.execute("INSERT INTO child VALUES (7)")  # accepted until COMMIT, which finds no parent
    assert not db.in_transaction
    with transaction(db):
        db.execute("INSERT INTO parent VALUES (1)")
    assert db.execute("SELECT count(*) FROM child").fetchone() == (0,)
    assert db.execute("SELECT id FROM parent").fetchone() == (1,)


def test_a_statement_that_finds_no_room_is_rolled_back(db: sqlite3.Connection) -> None:
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"), transaction(db):
        db.executemany("INSERT INTO parent VALUES (?)", ((number,) for number in range(10_000)))
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM parent").fetchone() == (0,)


def test_work_that_raises_is_rolled_back(db: sqlite3.Connection) -> None:
    with pytest.raises(ZeroDivisionError), transaction(db):
        db.executemany("INSERT INTO parent VALUES (?)", ((1 // number,) for number in (1, 0)))
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM parent").fetchone() == (0,)


def test_the_write_lock_is_taken_at_once(db: sqlite3.Connection, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)) as other, transaction(db):
        with pytest.raises(sqlite3.OperationalError, match="locked"), transaction(other):
            pytest.fail("two writers at once")
