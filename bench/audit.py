"""Whether a long audit holds anything up: `python bench/audit.py [ROWS]`, two million unless told, half too old.

Fills a state file, then asks all that `wicket logs`, `wicket status`, health and the dashboard ask of it, and writes.
Printed for each: how long it took, how late the event loop was at most meanwhile, and how long a key was waited for
that was looked up all the time beside it. Only the last two concern anybody else. Exit status 1 where the loop or a key
was held up for longer than `MOST`.
"""

import asyncio
import contextlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from wicket_mcp.model import LOCAL
from wicket_mcp.store.base import Store
from wicket_mcp.store.model import AuditQuery, CallRecord
from wicket_mcp.store.open import open_store

MOST = 0.5  # seconds; the machine may be busy with other work
APART = 2.6  # seconds between two calls: two million of them are sixty days
FILL = """WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO audit (at, principal, server, tool, arguments_digest, outcome, duration_ms, result_bytes, method, client)
SELECT ? - i * ?, CASE WHEN i % 5 = 0 THEN 'ann' ELSE 'local' END, 'server' || (i % 20), 'tool' || (i % 300), 'digest',
       CASE WHEN i % 50 = 0 THEN 'crashed' ELSE 'ok' END, 3.5, 100, 'tools/call', 'client' FROM n"""


class Watch:
    """Looks up a key all the time, and how late the loop is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.late = self.waited = 0.0

    async def run(self) -> None:
        while True:
            due = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            begun = time.perf_counter()
            await self._store.key_of(b"nobody's")
            self.late = max(self.late, begun - due)
            self.waited = max(self.waited, time.perf_counter() - begun)


def questions(store: Store, now: float) -> dict[str, Awaitable[Any]]:
    find = store.find_calls
    return {
        "the newest": find(AuditQuery(limit=100)),
        "of a principal": find(AuditQuery(principal="ann", limit=100)),
        "of a server": find(AuditQuery(server="server3", limit=100)),
        "of a tool that was never called": find(AuditQuery(tool="absent", limit=100)),
        "failed": find(AuditQuery(outcome="failed", limit=100)),
        "denied, of which there are none": find(AuditQuery(outcome="denied", limit=100)),
        "done to the gateway": find(AuditQuery(method="admin", limit=30)),
        "of the last hour": find(AuditQuery(since=now - 3600, limit=1000)),
        "servers called in a month": store.call_counts(now - 30 * 86400),
        "servers seen in a month": store.observed_servers(now - 30 * 86400),
        "health of a server": store.observations("server3", now - 30 * 86400),
        "usage": store.usage(LOCAL),
        "totals of a week": store.call_totals(now - 7 * 86400, 3600.0),
        "one record more, and old ones dropped": write(store),
    }


async def write(store: Store) -> None:
    store.record_call(CallRecord(time.time(), "local", "x", "echo", "", "ok", 1.0, 0))
    await store.save_note("written after it", "")


async def main(rows: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "wicket.db"
        await (await open_store(file)).close()
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute(FILL, (rows - 1, time.time(), APART))
        store = await open_store(file)
        print(f"{rows} rows, {file.stat().st_size / 2**20:.0f} MiB")
        watch = Watch(store)
        watching = asyncio.ensure_future(watch.run())
        worst = 0.0
        for title, question in questions(store, time.time()).items():
            watch.late = watch.waited = 0.0
            begun = time.perf_counter()
            await question
            took = time.perf_counter() - begun
            await asyncio.sleep(0.05)
            worst = max(worst, watch.late, watch.waited)
            print(f"{title}: {took * 1000:.0f} ms; loop {watch.late * 1000:.0f} ms, a key {watch.waited * 1000:.0f} ms")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await store.close()
    print(f"held up for {worst * 1000:.0f} ms at most ({'holds' if worst <= MOST else 'MISSED'})")
    return 0 if worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)))
