"""The format of the state, as numbered steps for every engine; a released step never changes.

Written with SQLite's types; `store/postgres/` translates them. Each step has a test that begins with a file of the
previous format. The engine decides which steps are missing, and under which lock they run.
"""

from collections.abc import Callable

from wicket_mcp.store.sql.part import Database


class TooNew(Exception):
    """The state has a newer format than this version knows."""

    def __init__(self, version: int) -> None:
        super().__init__(f"format {version}, this version knows {FORMAT}")


def _1_listings_results_calls(db: Database) -> None:
    for statement in (
        "CREATE TABLE IF NOT EXISTS listing (server TEXT PRIMARY KEY, body BLOB, fingerprint TEXT, segment BLOB)",
        "CREATE TABLE IF NOT EXISTS result (id TEXT UNIQUE, principal TEXT, tool TEXT, body BLOB, expires_at REAL)",
        """CREATE TABLE IF NOT EXISTS audit (at REAL, principal TEXT, server TEXT, tool TEXT, arguments_digest TEXT,
           outcome TEXT, duration_ms REAL, result_bytes INTEGER)""",
        "CREATE INDEX IF NOT EXISTS audit_at ON audit (at)",
        "CREATE TABLE IF NOT EXISTS usage (principal TEXT, tool TEXT, calls INTEGER, PRIMARY KEY (principal, tool))",
        "CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, text TEXT)",
    ):
        db.execute(statement)


def _2_registry(db: Database) -> None:
    """`IF NOT EXISTS`: two simultaneous first starts of an early version left a file marked 1 that has these tables."""
    for statement in (
        """CREATE TABLE IF NOT EXISTS registry_server (name TEXT, version TEXT, body BLOB, status TEXT,
           published_at REAL, updated_at REAL, latest INTEGER, origin TEXT, owner TEXT, PRIMARY KEY (name, version))""",
        "CREATE INDEX IF NOT EXISTS registry_server_updated ON registry_server (updated_at)",
        """CREATE TABLE IF NOT EXISTS api_key (name TEXT, digest BLOB PRIMARY KEY, hint TEXT, scopes TEXT,
           created_at REAL, expires_at REAL, revoked_at REAL, used_at REAL, rates BLOB)""",
        """CREATE TABLE IF NOT EXISTS rate_bucket (principal TEXT, kind TEXT, tokens REAL, at REAL,
           PRIMARY KEY (principal, kind))""",
        """CREATE TABLE IF NOT EXISTS domain (principal TEXT, domain TEXT, token TEXT, state TEXT, created_at REAL,
           checked_at REAL, verified_at REAL, method TEXT, problem TEXT, PRIMARY KEY (principal, domain))""",
        "CREATE TABLE IF NOT EXISTS onboarding (principal TEXT, step TEXT, at REAL, PRIMARY KEY (principal, step))",
        """CREATE TABLE IF NOT EXISTS managed_server (name TEXT PRIMARY KEY, kind TEXT, options BLOB, running INTEGER,
           owner TEXT, created_at REAL)""",
        "CREATE TABLE IF NOT EXISTS probe (server TEXT, at REAL, ok INTEGER, duration_ms REAL)",
        "CREATE INDEX IF NOT EXISTS probe_server ON probe (server, at)",
        "CREATE INDEX IF NOT EXISTS probe_at ON probe (at)",
        "CREATE INDEX IF NOT EXISTS audit_server ON audit (server, at)",
        "CREATE TABLE IF NOT EXISTS watch (server TEXT PRIMARY KEY, until REAL)",
    ):
        db.execute(statement)


def _3_vault(db: Database) -> None:
    for statement in (
        "CREATE TABLE vault_key (id TEXT PRIMARY KEY, wrapped BLOB, wrapped_by TEXT, created_at REAL)",
        """CREATE TABLE vault_secret (owner TEXT, name TEXT, key TEXT, sealed BLOB, updated_at REAL,
           PRIMARY KEY (owner, name))""",
    ):
        db.execute(statement)


def _4_audit_of_everything(db: Database) -> None:
    for column in (
        "method TEXT DEFAULT 'tools/call'",
        "client TEXT DEFAULT ''",
        "detail TEXT DEFAULT ''",
        "run TEXT DEFAULT ''",
        "upstream_ms REAL DEFAULT 0",
        "arguments_bytes INTEGER DEFAULT 0",
    ):
        db.execute(f"ALTER TABLE audit ADD COLUMN {column}")
    db.execute("CREATE INDEX audit_principal ON audit (principal, at)")


def _5_pins_and_approvals(db: Database) -> None:
    for statement in (
        """CREATE TABLE pin (server TEXT, source TEXT, kind TEXT, name TEXT, digest TEXT, definition BLOB,
           approved_by TEXT, at REAL, PRIMARY KEY (server, source, kind, name, digest))""",
        """CREATE TABLE approval (id TEXT PRIMARY KEY, principal TEXT, server TEXT, tool TEXT, arguments_digest TEXT,
           policy TEXT, words TEXT, asked_at REAL, expires_at REAL, approved_by TEXT, spent INTEGER)""",
        "ALTER TABLE audit ADD COLUMN rule TEXT DEFAULT ''",
    ):
        db.execute(statement)


def _6_grants(db: Database) -> None:
    for statement in (
        "CREATE TABLE oauth_client (id TEXT PRIMARY KEY, name TEXT, redirect_uris BLOB, created_at REAL)",
        """CREATE TABLE oauth_grant (id TEXT PRIMARY KEY, client TEXT, client_name TEXT, principal TEXT,
           credential BLOB, scopes TEXT, created_at REAL, expires_at REAL, used_at REAL, revoked_at REAL,
           reason TEXT)""",
        """CREATE TABLE oauth_ticket (digest BLOB PRIMARY KEY, kind TEXT, grant_id TEXT, body BLOB, expires_at REAL,
           used_at REAL)""",
        "CREATE INDEX oauth_ticket_expires ON oauth_ticket (expires_at)",
    ):
        db.execute(statement)


def _7_hours_of_calls(db: Database) -> None:
    """Hourly sums, so that a month of calls is summed quickly; built from the existing calls."""
    for statement in (
        """CREATE TABLE audit_hour (hour INTEGER, principal TEXT, server TEXT, calls INTEGER, failed INTEGER,
           cached INTEGER, duration_ms REAL, arguments_bytes INTEGER, result_bytes INTEGER,
           PRIMARY KEY (hour, principal, server))""",
        """INSERT INTO audit_hour SELECT CAST(at / 3600 AS INTEGER), principal, server, count(*),
           sum(CASE WHEN outcome IN ('ok', 'cached', 'cancelled') THEN 0 ELSE 1 END),
           sum(CASE WHEN outcome = 'cached' THEN 1 ELSE 0 END), sum(duration_ms),
           sum(arguments_bytes), sum(result_bytes) FROM audit WHERE server != '' GROUP BY 1, 2, 3""",
        "CREATE INDEX audit_method ON audit (method, at)",
    ):
        db.execute(statement)


def _8_choices(db: Database) -> None:
    db.execute(
        """CREATE TABLE choice (principal TEXT, query BLOB, tool TEXT, weight REAL, at REAL,
           PRIMARY KEY (principal, query, tool))"""
    )


def _9_standing_approvals(db: Database) -> None:
    db.execute(
        """CREATE TABLE standing_approval (id TEXT PRIMARY KEY, principal TEXT, server TEXT, tool TEXT, conditions BLOB,
           approved_by TEXT, at REAL)"""
    )


def _10_steps_and_scripts(db: Database) -> None:
    db.execute("ALTER TABLE audit ADD COLUMN steps TEXT DEFAULT ''")
    db.execute("CREATE INDEX audit_run ON audit (run) WHERE run != ''")


def _11_failures(db: Database) -> None:
    """Failures are rare: without an index of their own, the latest are found by reading all records of a day."""
    db.execute("CREATE INDEX audit_failed ON audit (at) WHERE outcome NOT IN ('ok', 'cached', 'cancelled')")


def _12_holders(db: Database) -> None:
    """Keys are told apart whatever their names. What exists stays with its name, except what somebody allowed an
    earlier key of a name for good.
    """
    for table in ("api_key", "audit"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN holder TEXT DEFAULT ''")
    db.execute(
        """DELETE FROM standing_approval WHERE EXISTS (SELECT 1 FROM api_key WHERE name = standing_approval.principal
           AND created_at > standing_approval.at)"""
    )


def _13_who_approves_what(db: Database) -> None:
    """A question's arguments apart from its words, and who may approve it."""
    db.execute("ALTER TABLE approval ADD COLUMN arguments TEXT DEFAULT ''")
    db.execute("ALTER TABLE approval ADD COLUMN who TEXT DEFAULT 'caller'")


def _14_changes_by_number(db: Database) -> None:
    """The number of the change that wrote a row (`changes.py`); 0 for earlier ones, which every process reads first."""
    db.execute("ALTER TABLE listing ADD COLUMN number INTEGER DEFAULT 0")
    db.execute("ALTER TABLE pin ADD COLUMN number INTEGER DEFAULT 0")
    db.execute("CREATE INDEX pin_number ON pin (number)")


MIGRATIONS: tuple[Callable[[Database], None], ...] = (
    _1_listings_results_calls,
    _2_registry,
    _3_vault,
    _4_audit_of_everything,
    _5_pins_and_approvals,
    _6_grants,
    _7_hours_of_calls,
    _8_choices,
    _9_standing_approvals,
    _10_steps_and_scripts,
    _11_failures,
    _12_holders,
    _13_who_approves_what,
    _14_changes_by_number,
)
FORMAT = len(MIGRATIONS)
