"""Bringing the state of one machine over to PostgreSQL: everything, in order, from every format, or nothing."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.cli.shell import Shell
from tests.peers.postgres import Postgres
from tests.store.contract import ANN, NOW, approval, call, key, listing, pin, record, standing
from tests.unit.store.test_migrations import HISTORY
from wicket_mcp.errors import ConfigError
from wicket_mcp.store.base import Store
from wicket_mcp.store.model import (
    AuditQuery,
    Observation,
    StoredClient,
    StoredDataKey,
    StoredDomain,
    StoredGrant,
    StoredListing,
    StoredManaged,
    StoredResult,
    StoredSecret,
    StoredTicket,
)
from wicket_mcp.store.open import open_store
from wicket_mcp.store.transfer import copy_to_postgres

SOON = time.time() + 3600


def silent(_table: str, _rows: int) -> None:
    return None


async def fill(store: Store) -> None:
    """Something of everything that is kept."""
    await store.save_listing(StoredListing(listing("x", "a", "b"), "print", b"\x00seg"))
    await store.save_result(StoredResult("r", "ann", "x.echo", b"\x00" * 70_000, SOON), 10**9)
    for number in range(3):
        store.record_call(call(-number, "ann", f"t{number}"))
    await store.save_note("a", "ü")
    await store.save_key(key())
    await store.add_data_key(StoredDataKey("k1", b"\x01", "by", NOW), after=None)
    await store.add_data_key(StoredDataKey("k2", b"\x02", "by", NOW), after="k1")
    await store.save_secret(StoredSecret("ann", "github", "k1", b"sealed", NOW))
    await store.save_oauth_client(StoredClient("c", "C", ("https://a/b",), NOW), 9, NOW)
    await store.add_grant(StoredGrant("g", "c", "C", "ann", b"cred", frozenset({"invoke"}), NOW, SOON))
    await store.add_ticket(StoredTicket(b"1", "code", "g", {"a": 1}, SOON), NOW)
    await store.take("ann", "discovery", 2, NOW)
    await store.save_records([record("a/1"), record("a/1", "2", published_at=NOW + 1)])
    await store.save_domain(StoredDomain("ann", "example.com", "token", "pending", NOW))
    await store.record_step("ann", "made", NOW)
    await store.save_managed(StoredManaged("m", "npm", {"command": "npx"}, running=True, owner="", created_at=NOW))
    await store.save_probe("x", Observation(NOW, ok=True, faulty=False, duration_ms=1.0), 0)
    await store.watch("x", SOON)
    await store.save_pins([pin("2", at=NOW + 1), pin("1")])
    await store.save_approval(approval())
    await store.save_standing_approval(standing())


async def read_all(store: Store) -> list[object]:
    """All of that, as a gateway sees it; the order counts."""
    return [
        await store.load_listings(),
        await store.load_result("r", ANN),
        await store.find_calls(AuditQuery(newest_first=False)),
        await store.usage(ANN),
        await store.call_totals(0, 3600),
        await store.load_note("a"),
        await store.keys(),
        await store.data_keys(),
        await store.secrets(),
        await store.oauth_client("c"),
        await store.grants(),
        await store.ticket(b"1"),
        await store.versions("a/1"),
        await store.domains("ann"),
        await store.steps("ann"),
        await store.managed_servers(),
        await store.observations("x", 0),
        await store.watched_servers(NOW),
        await store.pins(),
        await store.approvals(NOW),
        await store.standing_approvals(),
        await store.take("ann", "discovery", 2, NOW),
        await store.take("ann", "discovery", 2, NOW),
    ]


async def test_everything_is_there_afterwards_and_the_file_is_as_it_was(postgres: Postgres, tmp_path: Path) -> None:
    file = tmp_path / "wicket.db"
    source = await open_store(file)
    await fill(source)
    await source.close()
    before = file.read_bytes()
    address = postgres.database()
    counts = await copy_to_postgres(file, address, silent)
    assert file.read_bytes() == before
    assert [table for table, rows in counts.items() if not rows] == ["choice"]
    source, target = await open_store(file), await open_store(address)
    assert await read_all(target) == await read_all(source)
    await target.save_pins([pin("3", at=NOW + 2)])  # numbering goes on
    await target.close()
    await source.close()


@pytest.mark.parametrize("number", range(1, len(HISTORY) + 1))
async def test_every_released_format_can_be_brought_over(postgres: Postgres, tmp_path: Path, number: int) -> None:
    file = tmp_path / "wicket.db"
    with closing(sqlite3.connect(file)) as db:
        for script in HISTORY[:number]:
            db.executescript(script)
    before = file.read_bytes()
    address = postgres.database()
    await copy_to_postgres(file, address, silent)
    assert file.read_bytes() == before
    target = await open_store(address)
    assert await target.load_note("kept") == "from format 1"
    await target.close()


async def test_a_database_that_has_something_is_left_alone(postgres: Postgres, tmp_path: Path) -> None:
    file, address = tmp_path / "wicket.db", postgres.database()
    for location in (file, address):
        store = await open_store(location)
        await store.save_note(f"of {str(location)[:4]}", "kept")
        await store.close()
    with pytest.raises(ConfigError, match=r"not empty: 'note' has rows already.*nothing was changed"):
        await copy_to_postgres(file, address, silent)
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT key FROM note").fetchall() == [("of post",)]


async def test_what_cannot_be_read_says_so(postgres: Postgres, tmp_path: Path) -> None:
    address = postgres.database()
    with pytest.raises(ConfigError, match="no state to copy"):
        await copy_to_postgres(tmp_path / "none.db", address, silent)
    (tmp_path / "bad.db").write_bytes(b"no database" * 1000)
    with pytest.raises(ConfigError, match="cannot be read"):
        await copy_to_postgres(tmp_path / "bad.db", address, silent)
    with closing(sqlite3.connect(tmp_path / "new.db")) as db:
        db.execute("PRAGMA user_version = 999")
    with pytest.raises(ConfigError, match="newer Wicket"):
        await copy_to_postgres(tmp_path / "new.db", address, silent)


async def test_the_command_copies_what_the_configuration_names(postgres: Postgres, tmp_path: Path) -> None:
    store = await open_store(tmp_path / "state" / "wicket.db")
    await store.save_note("a", "b")
    await store.close()
    address = postgres.database()
    config = tmp_path / "wicket.toml"
    config.write_text(f'state_dir = "state"\nstore = "{address}"\n')
    shell = Shell.at(tmp_path / "home")
    command = ("migrate", "sqlite-to-postgres", "--config", str(config))
    done = await asyncio.to_thread(shell.run, *command)
    assert (done.code, "Copied 1 rows" in done.out) == (0, True)
    again = await asyncio.to_thread(shell.run, *command)
    assert (again.code, "not empty" in again.err) == (2, True)
    told = (await asyncio.to_thread(shell.run, "status", "--config", str(config))).out
    assert address.replace(":secret@", "@") in told
    assert "secret@" not in told
    config.write_text('state_dir = "state"\n')
    without = await asyncio.to_thread(shell.run, *command)
    assert "there is no database to copy to" in without.err
