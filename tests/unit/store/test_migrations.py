"""Every migration, begun with a file of the format before it, made by that version's own SQL."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from wicket_mcp.store.records import SUCCESSES
from wicket_mcp.store.sql.migrations import FORMAT, TooNew
from wicket_mcp.store.sqlite.migrations import migrate

# The SQL of released versions, copied: what they made is what people have. Never edit; add the next one.
FORMAT_1 = """
CREATE TABLE listing (server TEXT PRIMARY KEY, body BLOB, fingerprint TEXT, segment BLOB);
CREATE TABLE result (id TEXT UNIQUE, principal TEXT, tool TEXT, body BLOB, expires_at REAL);
CREATE TABLE audit (at REAL, principal TEXT, server TEXT, tool TEXT, arguments_digest TEXT, outcome TEXT,
  duration_ms REAL, result_bytes INTEGER);
CREATE INDEX audit_at ON audit (at);
CREATE TABLE usage (principal TEXT, tool TEXT, calls INTEGER, PRIMARY KEY (principal, tool));
CREATE TABLE note (key TEXT PRIMARY KEY, text TEXT);
INSERT INTO note VALUES ('kept', 'from format 1');
INSERT INTO usage VALUES ('local', 'x.echo', 3);
PRAGMA user_version = 1;
"""
FORMAT_2 = """
CREATE TABLE registry_server (name TEXT, version TEXT, body BLOB, status TEXT, published_at REAL, updated_at REAL,
  latest INTEGER, origin TEXT, owner TEXT, PRIMARY KEY (name, version));
CREATE INDEX registry_server_updated ON registry_server (updated_at);
CREATE TABLE api_key (name TEXT, digest BLOB PRIMARY KEY, hint TEXT, scopes TEXT, created_at REAL, expires_at REAL,
  revoked_at REAL, used_at REAL, rates BLOB);
CREATE TABLE rate_bucket (principal TEXT, kind TEXT, tokens REAL, at REAL, PRIMARY KEY (principal, kind));
CREATE TABLE domain (principal TEXT, domain TEXT, token TEXT, state TEXT, created_at REAL, checked_at REAL,
  verified_at REAL, method TEXT, problem TEXT, PRIMARY KEY (principal, domain));
CREATE TABLE onboarding (principal TEXT, step TEXT, at REAL, PRIMARY KEY (principal, step));
CREATE TABLE managed_server (name TEXT PRIMARY KEY, kind TEXT, options BLOB, running INTEGER, owner TEXT,
  created_at REAL);
CREATE TABLE probe (server TEXT, at REAL, ok INTEGER, duration_ms REAL);
CREATE INDEX probe_server ON probe (server, at);
CREATE INDEX probe_at ON probe (at);
CREATE INDEX audit_server ON audit (server, at);
CREATE TABLE watch (server TEXT PRIMARY KEY, until REAL);
INSERT INTO onboarding VALUES ('ann', 'made', 5.0);
PRAGMA user_version = 2;
"""
FORMAT_3 = """
CREATE TABLE vault_key (id TEXT PRIMARY KEY, wrapped BLOB, wrapped_by TEXT, created_at REAL);
CREATE TABLE vault_secret (owner TEXT, name TEXT, key TEXT, sealed BLOB, updated_at REAL, PRIMARY KEY (owner, name));
INSERT INTO vault_secret VALUES ('ann', 'github', 'k', x'00', 5.0);
PRAGMA user_version = 3;
"""
FORMAT_4 = """
ALTER TABLE audit ADD COLUMN method TEXT DEFAULT 'tools/call';
ALTER TABLE audit ADD COLUMN client TEXT DEFAULT '';
ALTER TABLE audit ADD COLUMN detail TEXT DEFAULT '';
ALTER TABLE audit ADD COLUMN run TEXT DEFAULT '';
ALTER TABLE audit ADD COLUMN upstream_ms REAL DEFAULT 0;
ALTER TABLE audit ADD COLUMN arguments_bytes INTEGER DEFAULT 0;
CREATE INDEX audit_principal ON audit (principal, at);
PRAGMA user_version = 4;
"""
FORMAT_5 = """
CREATE TABLE pin (server TEXT, source TEXT, kind TEXT, name TEXT, digest TEXT, definition BLOB, approved_by TEXT,
  at REAL, PRIMARY KEY (server, source, kind, name, digest));
CREATE TABLE approval (id TEXT PRIMARY KEY, principal TEXT, server TEXT, tool TEXT, arguments_digest TEXT, policy TEXT,
  words TEXT, asked_at REAL, expires_at REAL, approved_by TEXT, spent INTEGER);
ALTER TABLE audit ADD COLUMN rule TEXT DEFAULT '';
PRAGMA user_version = 5;
"""
FORMAT_6 = """
CREATE TABLE oauth_client (id TEXT PRIMARY KEY, name TEXT, redirect_uris BLOB, created_at REAL);
CREATE TABLE oauth_grant (id TEXT PRIMARY KEY, client TEXT, client_name TEXT, principal TEXT, credential BLOB,
  scopes TEXT, created_at REAL, expires_at REAL, used_at REAL, revoked_at REAL, reason TEXT);
CREATE TABLE oauth_ticket (digest BLOB PRIMARY KEY, kind TEXT, grant_id TEXT, body BLOB, expires_at REAL, used_at REAL);
CREATE INDEX oauth_ticket_expires ON oauth_ticket (expires_at);
PRAGMA user_version = 6;
"""
FORMAT_7 = """
CREATE TABLE audit_hour (hour INTEGER, principal TEXT, server TEXT, calls INTEGER, failed INTEGER, cached INTEGER,
  duration_ms REAL, arguments_bytes INTEGER, result_bytes INTEGER, PRIMARY KEY (hour, principal, server));
CREATE INDEX audit_method ON audit (method, at);
PRAGMA user_version = 7;
"""
FORMAT_8 = """
CREATE TABLE choice (principal TEXT, query BLOB, tool TEXT, weight REAL, at REAL, PRIMARY KEY (principal, query, tool));
PRAGMA user_version = 8;
"""
FORMAT_9 = """
CREATE TABLE standing_approval (id TEXT PRIMARY KEY, principal TEXT, server TEXT, tool TEXT, conditions BLOB,
  approved_by TEXT, at REAL);
INSERT INTO audit (at, principal, server, tool, arguments_digest, outcome, duration_ms, result_bytes)
  VALUES (7.0, 'ann', 'x', 'echo', '', 'ok', 1.5, 2);
PRAGMA user_version = 9;
"""
FORMAT_10 = """
ALTER TABLE audit ADD COLUMN steps TEXT DEFAULT '';
CREATE INDEX audit_run ON audit (run) WHERE run != '';
PRAGMA user_version = 10;
"""
FORMAT_11 = """
CREATE INDEX audit_failed ON audit (at) WHERE outcome NOT IN ('ok', 'cached', 'cancelled');
INSERT INTO api_key VALUES ('ci', x'01', 'wk_a', 'invoke', 10.0, NULL, 20.0, NULL, x'7b7d');
INSERT INTO api_key VALUES ('ci', x'02', 'wk_b', 'invoke', 30.0, NULL, NULL, NULL, x'7b7d');
INSERT INTO standing_approval VALUES ('first', 'ci', 'x', 'echo', x'7b7d', 'local', 15.0);
INSERT INTO standing_approval VALUES ('second', 'ci', 'x', 'echo', x'7b7d', 'local', 35.0);
INSERT INTO standing_approval VALUES ('owners', 'local', 'x', 'echo', x'7b7d', 'local', 5.0);
PRAGMA user_version = 11;
"""
HISTORY = (
    FORMAT_1,
    FORMAT_2,
    FORMAT_3,
    FORMAT_4,
    FORMAT_5,
    FORMAT_6,
    FORMAT_7,
    FORMAT_8,
    FORMAT_9,
    FORMAT_10,
    FORMAT_11,
)


@pytest.fixture
def db(tmp_path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as db:
        yield db


def shape(db: sqlite3.Connection) -> dict[tuple[str, str], list[tuple[object, ...]]]:
    """Tables and indexes with their columns."""
    things = db.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    return {
        (kind, name): db.execute(f"PRAGMA {'table' if kind == 'table' else 'index'}_info({name})").fetchall()
        for kind, name in things
    }


def new_shape() -> dict[tuple[str, str], list[tuple[object, ...]]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        return shape(fresh)


def version(db: sqlite3.Connection) -> int:
    return db.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.parametrize("before", range(len(HISTORY) + 1))
def test_a_file_of_every_earlier_format_becomes_a_new_one_and_keeps_its_content(
    db: sqlite3.Connection, before: int
) -> None:
    for script in HISTORY[:before]:
        db.executescript(script)
    assert version(db) == before
    migrate(db)
    assert version(db) == FORMAT
    assert shape(db) == new_shape()
    if before >= 11:  # W31: what the holder of a name was allowed for good is not its next holder's
        assert db.execute("SELECT id FROM standing_approval ORDER BY id").fetchall() == [("owners",), ("second",)]
        assert db.execute("SELECT DISTINCT holder FROM api_key").fetchall() == [("",)]
    if before >= 1:
        assert db.execute("SELECT text FROM note").fetchall() == [("from format 1",)]
        assert db.execute("SELECT calls FROM usage").fetchall() == [(3,)]
    if before >= 2:
        assert db.execute("SELECT * FROM onboarding").fetchall() == [("ann", "made", 5.0)]
    if before >= 3:
        assert db.execute("SELECT owner, name FROM vault_secret").fetchall() == [("ann", "github")]
    if before >= 9:
        assert db.execute("SELECT tool, steps FROM audit").fetchall() == [("echo", "")]


def test_the_latest_failures_are_found_without_reading_what_succeeded(db: sqlite3.Connection) -> None:
    migrate(db)
    query = f"SELECT * FROM audit WHERE outcome NOT IN {SUCCESSES} AND at >= 1 ORDER BY at DESC, rowid DESC LIMIT 6"  # noqa: S608
    plan = " ".join(row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "USING INDEX audit_failed" in plan


def test_a_file_that_two_first_starts_left_half_marked_is_mended(db: sqlite3.Connection) -> None:
    db.executescript(FORMAT_1 + FORMAT_2)
    db.execute("PRAGMA user_version = 1")
    migrate(db)
    assert version(db) == FORMAT
    assert db.execute("SELECT * FROM onboarding").fetchall() == [("ann", "made", 5.0)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(db: sqlite3.Connection) -> None:
    db.executescript(FORMAT_1)
    db.execute("DROP TABLE audit")  # which one of the last statements needs
    before = shape(db)
    with pytest.raises(sqlite3.OperationalError):
        migrate(db)
    assert (version(db), shape(db), db.in_transaction) == (1, before, False)


def test_a_current_file_is_opened_while_another_holds_the_write_lock(db: sqlite3.Connection, tmp_path: Path) -> None:
    migrate(db)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)) as other:
        migrate(other)
        assert version(other) == FORMAT
    db.execute("ROLLBACK")


def test_a_later_format_is_refused(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(TooNew, match=f"format {FORMAT + 1}, this version knows {FORMAT}"):
        migrate(db)
    assert shape(db) == {}
