"""The two drivers for PostgreSQL on our queries: `python -m bench.postgres [ROUNDS]`.

Each query by psycopg as the store uses it (in a thread), by asyncpg in the same place (the SQL is synchronous and
shared with SQLite, so a statement waits for a loop of that thread's own), and by asyncpg in coroutines of the gateway's
loop, which would need all SQL parts a second time. In turns; processor time of this process in milliseconds, the median
of the rounds. asyncpg is installed for this benchmark alone.
"""

import asyncio
import importlib
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.peers.postgres import Postgres

from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.open import open_store
from wicket_mcp.store.postgres.session import PostgresDatabase, Session
from wicket_mcp.store.records import Batch
from wicket_mcp.store.sql.audit import write_batch

try:
    asyncpg: Any = importlib.import_module("asyncpg")
except ImportError:
    sys.exit("asyncpg is missing: pip install asyncpg")

RECORDS = 200
TIMES = {"read a note": 200, "claim and release a server": 100, "200 records of calls": 20}
NOTE = "SELECT text FROM note WHERE key = ?"
CLAIM = """INSERT INTO wicket_owner VALUES (?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET
           replica = excluded.replica, epoch = wicket_owner.epoch + 1 RETURNING epoch"""


def number(text: str) -> str:
    """The marks of asyncpg."""
    parts = text.split("?")
    return "".join(f"{part}${n}" for n, part in enumerate(parts[:-1], 1)) + parts[-1]


class Rows:
    """What asyncpg answered, as a cursor."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> Sequence[Any]:
        return self._rows


class AsyncpgDatabase:
    """asyncpg in the place of psycopg: synchronous, with a loop of its own."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(asyncpg.connect(dsn))

    def execute(self, text: str, values: Sequence[Any] = ()) -> Rows:
        return Rows(self._loop.run_until_complete(self._connection.fetch(number(text), *values)))

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        self._loop.run_until_complete(self._connection.executemany(number(text), rows))


class Native:
    """asyncpg in coroutines: records what the SQL parts ask for, and asks it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, bool]] = []

    def execute(self, text: str, values: Sequence[Any] = ()) -> Rows:
        self.asked.append((number(text), values, False))
        return Rows([])

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        self.asked.append((number(text), rows, True))


def batch() -> Batch:
    now = time.time()
    calls = [
        CallRecord(now, "ann", "files", f"tool{n % 7}", "0" * 32, "ok", 1.5, 900 + n, client="bench", upstream_ms=1.2)
        for n in range(RECORDS)
    ]
    return Batch(calls)


def work(db: Any, name: str) -> None:
    """One of our queries, in a transaction where the store has one."""
    if name == "read a note":
        db.execute(NOTE, ("bench",)).fetchone()
        return
    db.execute("BEGIN")
    if name == "200 records of calls":
        write_batch(db, batch())
    else:
        db.execute("SELECT pg_try_advisory_lock(?)", (4711,)).fetchone()
        db.execute(CLAIM, ("x", "me", "http://127.0.0.1:1"))
        db.execute("SELECT pg_advisory_unlock(?)", (4711,)).fetchone()
    db.execute("COMMIT")


async def in_coroutine(connection: Any, name: str) -> None:
    native = Native()
    work(native, name)
    for text, values, many in native.asked:
        await (connection.executemany(text, values) if many else connection.fetch(text, *values))


async def measure(ask: Callable[[], Awaitable[object]], times: int) -> float:
    await ask()
    began = time.process_time()
    for _ in range(times):
        await ask()
    return (time.process_time() - began) / times * 1000


async def main(rounds: int) -> None:
    print(f"{os.cpu_count()} cores, asyncpg {asyncpg.__version__}, load {os.getloadavg()[0]:.1f}")
    loop = asyncio.get_running_loop()
    with Postgres() as server:
        dsn = server.database()
        await (await open_store(dsn)).close()
        threads = [ThreadPoolExecutor(1) for _ in range(2)]
        ours: PostgresDatabase = await loop.run_in_executor(threads[0], lambda: Session(dsn).connect())
        placed = await loop.run_in_executor(threads[1], AsyncpgDatabase, dsn)
        native = await asyncpg.connect(dsn)
        for name, times in TIMES.items():
            ways: dict[str, Callable[[], Awaitable[object]]] = {
                "psycopg": lambda name=name: loop.run_in_executor(threads[0], work, ours, name),
                "asyncpg in its place": lambda name=name: loop.run_in_executor(threads[1], work, placed, name),
                "asyncpg in coroutines": lambda name=name: in_coroutine(native, name),
            }
            costs: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, ask in ways.items():
                    costs[way].append(await measure(ask, times))
            words = ", ".join(f"{way} {statistics.median(values):.3f}" for way, values in costs.items())
            print(f"{name}: {words} ms")
        await native.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
