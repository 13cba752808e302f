"""The state file: opened by several processes at once, by other versions, damaged, locked, on a full disk."""

import asyncio
import os
import sqlite3
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.model import LOCAL
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.store.model import StoredResult
from wicket_mcp.store.open import open_store
from wicket_mcp.store.sqlite.connection import Connection

HERE = Path(__file__).parent
ROUNDS = 12
KILLS = 100
HOLDS_THE_WRITE_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
db.execute("INSERT INTO note VALUES ('theirs', 'not committed')")
print("held", flush=True)
sys.stdin.read()
"""


async def answer(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@asynccontextmanager
async def child(*arguments: str) -> AsyncGenerator[Process]:
    """A Python process that ends when its stdin does."""
    process = await create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


@pytest.mark.promise("D1", "Starts at the same moment on an empty state all work, and the file opens again.")
async def test_d1_first_starts_at_the_same_moment_all_work_and_leave_a_file_that_opens(tmp_path: Path) -> None:
    async with (
        child(str(HERE / "opener.py"), "a") as a,
        child(str(HERE / "opener.py"), "b") as b,
        child(str(HERE / "opener.py"), "c") as c,
    ):
        for number in range(ROUNDS):
            path = tmp_path / str(number) / "wicket.db"
            for process in (a, b, c):
                assert process.stdin is not None
                process.stdin.write(f"{path}\n".encode())
            assert [await answer(process) for process in (a, b, c)] == ["ok", "ok", "ok"]
            store = await open_store(path)
            assert [await store.load_note(name) for name in "abc"] == ["was here"] * 3
            await store.close()


@pytest.mark.promise("F18", "Reading and starting do not wait for a writer.")
async def test_f18_a_reader_and_a_new_start_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    early = await open_store(path)
    await early.save_note("ours", "committed")
    async with child("-c", HOLDS_THE_WRITE_LOCK, str(path)) as holder:
        assert await answer(holder) == "held"
        late = await open_store(path)
        for store in (early, late):
            assert await store.load_note("ours") == "committed"
            assert await store.load_note("theirs") is None
            assert await store.usage(LOCAL) == {}
            assert await store.key_of(b"unknown") is None
            assert await store.load_listings() == []
        assert holder.returncode is None
    await late.close()
    await early.close()


@pytest.mark.promise("F17", "A full disk loses only what was written then, and nothing later.")
async def test_f17_a_full_disk_costs_what_was_written_then_and_nothing_later(tmp_path: Path) -> None:
    process = await create_subprocess_exec(
        sys.executable, str(HERE / "full_disk.py"), str(tmp_path / "wicket.db"), stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    out, problems = await process.communicate()
    refused, *rest = out.decode().splitlines()
    assert "could not be used" in refused
    assert "Check free space" in refused
    assert rest == ["lost: 1", "read: kept None", "read: works None"]
    assert b"call records are lost until the state can be written again" in problems
    assert process.returncode == 0


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.promise("F19", "A file of a later version is refused and not touched.")
async def test_f19_a_file_of_a_later_version_is_refused_and_not_touched(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "wicket.db"
    script = f"""
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = {journal}")
db.execute("CREATE TABLE future (x)")
db.execute("PRAGMA user_version = 999")
os._exit(0)  # in WAL mode, what it wrote is not in the file yet
"""
    async with child("-c", script, str(path)):
        pass
    path.chmod(0o640)
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    with pytest.raises(ConfigError, match=r"newer Wicket \(format 999.*Upgrade Wicket"):
        await open_store(path)
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    assert path.stat().st_mode & 0o777 == 0o640
    assert not list(tmp_path.glob("*damaged*"))


@pytest.mark.promise("F19", "A damaged file is set aside, not overwritten.")
async def test_f19_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    path.write_bytes(b"no database, but somebody may want it back" * 100)
    store = await open_store(path)
    await store.save_note("a", "b")
    await store.close()
    assert [file.read_bytes()[:11] for file in tmp_path.glob("*.damaged-*")] == [b"no database"]


async def test_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "wicket.db"
    store = await open_store(path)
    await store.save_note("a", "b")
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    await store.close()


async def test_a_path_that_cannot_be_a_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "wicket.db").mkdir(parents=True)
    for path in (tmp_path / "file" / "wicket.db", tmp_path / "folder" / "wicket.db"):
        with pytest.raises(ConfigError, match="cannot be opened: .*set 'state_dir'"):
            await open_store(path)


async def test_another_kind_of_store_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="a 'mysql' state store is not built in.*Use postgresql://"):
        await open_store("mysql://user:secret@host/wicket")


@pytest.mark.promise("F19", "A state file that is deleted while in use is written again with all its content.")
@pytest.mark.promise("D19", "A deleted state file is written again.")
async def test_f19_d19_a_deleted_file_is_written_again_with_all_it_held(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    store = await open_store(path)
    await store.save_note("a", "b")
    for file in tmp_path.iterdir():
        file.unlink()
    await store.save_note("c", "d")
    assert [await store.load_note(name) for name in "ac"] == ["b", "d"]
    assert path.stat().st_mode & 0o777 == 0o600
    await store.close()
    later = await open_store(path)
    assert [await later.load_note(name) for name in "ac"] == ["b", "d"]
    await later.close()


@pytest.mark.promise("F19", "Damage that is found while Wicket runs fails that request; then a new file is created.")
async def test_f19_a_file_that_turns_out_to_be_damaged_is_set_aside_while_we_run(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    store = await open_store(path)
    await store.save_note("large", "x" * 200_000)
    await store.close()
    whole = path.read_bytes()
    with path.open("r+b") as file:  # the header and the schema stay as they are
        file.seek(len(whole) - 150_000)
        file.write(os.urandom(150_000))
    damaged = path.read_bytes()
    store = await open_store(path)
    with pytest.raises(Internal, match="could not be used"):
        await store.load_note("large")
    await store.save_note("a", "b")
    assert await store.load_note("a") == "b"
    await store.close()
    assert [file.read_bytes() for file in tmp_path.glob("*.damaged-*")] == [damaged]


@pytest.mark.promise("F25", "Acknowledged data survives if the process is killed at any moment.")
async def test_f25_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    acknowledged: list[str] = []
    for number in range(KILLS):
        process = await create_subprocess_exec(
            sys.executable, str(HERE / "writer.py"), str(path), str(number), stdin=DEVNULL, stdout=PIPE
        )
        acknowledged += [await answer(process) for _ in range(1 + 7 * number % 40)]
        process.kill()
        rest, _ = await process.communicate()
        acknowledged += [line for line in rest.decode().split("\n")[:-1] if line]
    store = await open_store(path)
    lost = [name for name in acknowledged if await store.load_note(name) != f"content of {name}"]
    await store.close()
    assert lost == []
    assert len(acknowledged) > KILLS
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.promise("F27", "A long query of the audit does not block other readers.")
async def test_f27_a_long_read_holds_up_no_other(tmp_path: Path) -> None:
    connection = await Connection.open(tmp_path / "wicket.db")
    begun, end = threading.Event(), threading.Event()

    def look_through_much(db: sqlite3.Connection) -> str:
        begun.set()
        end.wait(60)
        return "looked"

    long_read = asyncio.ensure_future(connection.read(look_through_much, long=True))
    await asyncio.to_thread(begun.wait, 60)
    assert await connection.read(lambda db: db.execute("SELECT count(*) FROM audit").fetchone()) == (0,)
    assert not long_read.done()
    end.set()
    assert await long_read == "looked"
    await connection.close()


async def test_f18_a_busy_state_is_named_as_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wicket_mcp.results.storage.PATIENCE", 0.05)
    store = await open_store(tmp_path / "wicket.db")
    storage = ResultStorage(store)
    with closing(sqlite3.connect(tmp_path / "wicket.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not await storage.save(StoredResult("r1", "local", "x.y", b"{}", time.time() + 60), 1000)
        other.execute("ROLLBACK")
    await store.close()
    assert "a result of x.y is kept in memory only: the state is busy" in caplog.text
