"""A state in PostgreSQL: opened by several at once, of other versions, without rights, away, started again."""

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.peers.old_postgres import old_postgres
from tests.peers.ports import free_port
from tests.peers.postgres import Postgres
from tests.store.contract import changed, key
from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.store.open import open_store
from wicket_mcp.store.sql.migrations import FORMAT

HERE = Path(__file__).parent
OPENERS = 4


@pytest.fixture
def own_server() -> Generator[Postgres]:
    """A server that a test may stop."""
    with Postgres() as server:
        yield server


async def test_first_starts_at_the_same_moment_all_work(postgres: Postgres) -> None:
    address = postgres.database()
    processes = [
        await create_subprocess_exec(sys.executable, str(HERE / "opener.py"), str(number), stdin=PIPE, stdout=PIPE)
        for number in range(OPENERS)
    ]
    answers = await asyncio.gather(*(process.communicate(f"{address}\n".encode()) for process in processes))
    assert [answer for answer, _ in answers] == [b"ok\n"] * OPENERS
    store = await open_store(address)
    assert [await store.load_note(str(number)) for number in range(OPENERS)] == ["was here"] * OPENERS
    await store.close()
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT version FROM wicket_format").fetchall() == [(FORMAT,)]


async def test_a_database_of_a_later_version_is_refused_and_not_touched(postgres: Postgres) -> None:
    address = postgres.database()
    name = address.rpartition("/")[2]
    postgres.execute(
        "CREATE TABLE wicket_format (version int)", "INSERT INTO wicket_format VALUES (999)", database=name
    )
    with pytest.raises(ConfigError, match=r"newer Wicket \(format 999.*Upgrade Wicket"):
        await open_store(address)
    with psycopg.connect(address) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("wicket_format",)]


async def test_an_old_server_is_refused_by_its_version() -> None:
    async with old_postgres("9.6.24 (Debian 9.6)") as port:
        with pytest.raises(ConfigError, match=r"is PostgreSQL 9\.6\.24, which is too old.*Use PostgreSQL 13 or later"):
            await open_store(f"postgresql://wicket@127.0.0.1:{port}/wicket")


async def test_a_user_without_rights_is_told_which(postgres: Postgres) -> None:
    address = postgres.database()
    postgres.execute("CREATE USER poor PASSWORD 'secret'")
    poor = postgres.address(address.rpartition("/")[2], user="poor")
    with pytest.raises(ConfigError, match=r"poor@.* lacks a right: permission denied for schema public.*GRANT CREATE"):
        await open_store(poor)


async def test_a_user_who_can_only_read_the_tables_is_told_at_start(postgres: Postgres) -> None:
    address = postgres.database()
    name = address.rpartition("/")[2]
    await (await open_store(address)).close()
    postgres.execute(
        "CREATE USER reader PASSWORD 'secret'", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database=name
    )
    with pytest.raises(ConfigError, match=r"may not read and change the table wicket_change.*GRANT ALL ON ALL TABLES"):
        await open_store(postgres.address(name, user="reader"))
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(ConfigError, match=r"is read-only.*not a standby"):
        await open_store(address)


async def test_too_few_connections_are_told_at_start(postgres: Postgres) -> None:
    address = postgres.database()
    postgres.execute("CREATE USER few PASSWORD 'secret' CONNECTION LIMIT 1")
    name = address.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} OWNER TO few")
    with pytest.raises(ConfigError, match=r"too many connections for role.*six connections"):
        await open_store(postgres.address(name, user="few"))


async def test_tables_of_something_else_are_neither_used_nor_changed(postgres: Postgres) -> None:
    address = postgres.database()
    postgres.execute("CREATE TABLE note (theirs text)", database=address.rpartition("/")[2])
    with pytest.raises(ConfigError, match=r'tables of something else: relation "note" already exists.*search_path'):
        await open_store(address)
    with psycopg.connect(address) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("note",)]


async def test_a_wrong_address_says_what_is_wrong_and_never_the_password(postgres: Postgres) -> None:
    nobody = free_port()
    addresses = {
        postgres.address("nowhere"): 'database "nowhere" does not exist',
        postgres.address(password="wrong-hunter2"): "password authentication failed",
        f"postgresql://wicket:hunter2@127.0.0.1:{nobody}/wicket": "refused",
        "postgresql://wicket:hunter2@127.0.0.1:port/wicket": "invalid",
        "postgresql://wicket:hunter2@127.0.0.1/wicket?colour=red": "colour",
        "postgresql://wicket:hunter2@nowhere.invalid/wicket": "nowhere.invalid",
        "postgresql:/wicket:hunter2@127.0.0.1/wicket": "is not the address of a database. Use postgresql://",
    }
    for address, words in addresses.items():
        with pytest.raises(ConfigError, match=words) as caught:
            await open_store(address)
        assert "hunter2" not in str(caught.value)


async def test_a_host_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(ConfigError, match="timeout"):
            await open_store(f"postgresql://wicket@127.0.0.1:{port}/wicket?connect_timeout=2")


async def test_what_this_engine_cannot_hold_is_kept_without_it(postgres: Postgres) -> None:
    store = await open_store(postgres.database())
    await store.save_note("a", "nul \0 character")
    assert await store.load_note("a") == "nul � character"
    await store.close()


async def test_schemas_of_one_database_are_apart(postgres: Postgres) -> None:
    address = postgres.database()
    postgres.execute("CREATE SCHEMA one", "CREATE SCHEMA two", database=address.rpartition("/")[2])
    stores = [await open_store(f"{address}?options=-csearch_path%3D{schema}") for schema in ("one", "two")]
    await stores[0].save_note("a", "b")
    assert [await store.load_note("a") for store in stores] == ["b", None]
    for store in stores:
        await store.close()


@pytest.mark.promise("F21", "A restart of PostgreSQL fails only requests at that moment, and nothing later.")
async def test_f21_a_restart_of_the_server_is_survived_and_changes_are_heard_of_after_it(own_server: Postgres) -> None:
    address = own_server.database()
    store, other = await open_store(address), await open_store(address)
    await store.save_note("a", "b")
    before = store.keys_version()
    await asyncio.to_thread(own_server.stop)
    assert store.keys_version() == before  # what is known holds for a while
    coming = asyncio.gather(store.load_note("a"), other.save_note("c", "d"))  # waits for the server
    await asyncio.to_thread(own_server.start)
    assert await coming == ["b", None]
    assert await store.load_note("c") == "d"
    await other.save_key(key())
    await changed(store, store.keys_version, before)
    assert await store.key_of(b"1") == key()
    for opened in (store, other):
        await opened.close()


async def test_a_server_that_stays_away_costs_what_was_asked_then(own_server: Postgres) -> None:
    address = own_server.database()
    store = await open_store(address)
    await asyncio.to_thread(own_server.stop)
    for work in (store.save_note("a", "b"), store.load_note("a"), store.keys()):
        with pytest.raises(Internal, match=r"postgresql://postgres@127.*could not be used.*Check that PostgreSQL runs"):
            await work
    await asyncio.to_thread(own_server.start)
    await store.save_note("a", "later")
    assert await store.load_note("a") == "later"
    await store.close()
