"""The vault: what is written where, who can read it, and keys that change, are lost or come from elsewhere."""

import asyncio
import base64
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.cli.shell import Shell
from wicket_mcp.config.model.config import Config, VaultConfig
from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.identity.vault import SHARED, Vault
from wicket_mcp.identity.wrapping import VARIABLE, wrapping
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import STATE_FILE, open_store

CANARY = b"canary-5f1d8a-token"
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(3)]


class House:
    """One state folder, opened by any number of processes."""

    def __init__(self, folder: Path, opened: AsyncExitStack) -> None:
        self.folder, self._opened = folder, opened

    async def store(self) -> Store:
        store = await open_store(self.folder / STATE_FILE)
        self._opened.push_async_callback(store.close)
        return store

    async def vault(self, **options: str) -> Vault:
        config = Config(state_dir=str(self.folder), vault=VaultConfig(**options))  # type: ignore[arg-type]
        return Vault(await self.store(), wrapping(config))


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[House]:
    monkeypatch.delenv(VARIABLE, raising=False)
    async with AsyncExitStack() as opened:
        yield House(tmp_path, opened)


async def test_a_secret_comes_back_to_its_owner_alone(house: House) -> None:
    vault = await house.vault()
    await vault.put("ann", "github", CANARY)
    await vault.put(SHARED, "github", b"other")
    again = await house.vault()
    assert await again.get("ann", "github") == CANARY
    assert await again.get(SHARED, "github") == b"other"
    assert await again.get("bob", "github") is None
    assert await again.names("ann") == ["github"]
    assert (await again.delete("ann", "github"), await again.delete("ann", "github")) == (True, False)
    assert await vault.get("ann", "github") is None


async def test_no_file_holds_a_secret_in_the_clear_and_the_key_is_private(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    vault = await house.vault()
    await vault.put("ann", "github", CANARY)
    files = {file.name: file.read_bytes() for file in house.folder.iterdir()}
    assert set(files) >= {STATE_FILE, "vault.key"}
    assert not [name for name, content in files.items() if CANARY in content]
    assert (house.folder / "vault.key").stat().st_mode & 0o777 == 0o600
    assert CANARY.decode() not in caplog.text + repr(vault)


async def test_a_row_that_was_moved_or_changed_does_not_open(house: House) -> None:
    vault, store = await house.vault(), await house.store()
    await vault.put("ann", "github", CANARY)
    kept = await store.secret("ann", "github")
    assert kept is not None
    moved = type(kept)("bob", "github", kept.key, kept.sealed, kept.updated_at)
    changed = type(kept)("ann", "x", kept.key, kept.sealed[:-1] + bytes([kept.sealed[-1] ^ 1]), kept.updated_at)
    short = type(kept)("ann", "y", kept.key, b"short", kept.updated_at)
    for row in (moved, changed, short):
        await store.save_secret(row)
        with pytest.raises(Internal, match="is damaged. Sign in again"):
            await vault.get(row.owner, row.name)


async def test_rotation_changes_every_key_and_no_secret_while_another_process_reads_and_writes(house: House) -> None:
    vault, other, store = await house.vault(), await house.vault(), await house.store()
    for number in range(5):
        await vault.put("ann", str(number), CANARY)
    assert await other.get("ann", "0") == CANARY
    before, key_file = await store.data_keys(), (house.folder / "vault.key").read_bytes()
    assert await vault.rotate() == 5
    after = await store.data_keys()
    assert len(after) == 1
    assert after[0].id != before[0].id
    (old,), (new,) = key_file.splitlines(), (house.folder / "vault.key").read_bytes().splitlines()
    assert old != new  # the earlier key, which may be known to others, is not kept
    await other.put("ann", "late", b"written with a key that was rotated away meanwhile")
    assert [await other.get("ann", str(number)) for number in range(5)] == [CANARY] * 5
    assert await vault.get("ann", "late") == b"written with a key that was rotated away meanwhile"


async def test_two_first_writers_agree_on_one_key(house: House) -> None:
    first, second = await house.vault(), await house.vault()
    await first.put("ann", "a", CANARY)
    await second.put("ann", "b", CANARY)
    assert await first.get("ann", "b") == await second.get("ann", "a") == CANARY
    assert len(await (await house.store()).data_keys()) == 1


async def test_a_lost_key_says_so_and_what_it_protected_can_be_dropped(house: House) -> None:
    await (await house.vault()).put("ann", "github", CANARY)
    lost_key = (house.folder / "vault.key").read_text()
    (house.folder / "vault.key").unlink()
    vault = await house.vault()
    for attempt in (vault.get("ann", "github"), vault.put("ann", "x", b""), vault.rotate()):
        with pytest.raises(ConfigError, match=r"lost or replaced. Bring .* wicket vault rotate --discard") as problem:
            await attempt
        assert CANARY.decode() not in str(problem.value)
    assert (await vault.status()).unreadable == 1
    assert await vault.rotate(discard=True) == 0
    assert await vault.names("ann") == []
    (house.folder / "vault.key").write_text((house.folder / "vault.key").read_text() + lost_key)
    assert await (await house.vault()).get("ann", "github") is None  # also if the lost key comes back
    await vault.put("ann", "github", b"new")
    assert await vault.get("ann", "github") == b"new"


async def test_a_key_of_the_environment_is_rotated_by_its_owner(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEYS[0])
    await (await house.vault()).put("ann", "github", CANARY)
    assert not (house.folder / "vault.key").exists()
    monkeypatch.setenv(VARIABLE, f"{KEYS[1]},{KEYS[0]}")
    assert await (await house.vault()).rotate() == 1
    monkeypatch.setenv(VARIABLE, KEYS[1])
    assert await (await house.vault()).get("ann", "github") == CANARY
    monkeypatch.setenv(VARIABLE, KEYS[0])
    with pytest.raises(ConfigError, match="lost or replaced"):
        await (await house.vault()).get("ann", "github")


@pytest.mark.parametrize("text", ["short", "AAAA", "ü" * 32, "%%%"])
async def test_what_is_not_a_key_is_refused_and_not_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError, match="not a key of 32 bytes in base64. Make a key with") as problem:
        await (await house.vault()).put("ann", "github", CANARY)
    assert text not in str(problem.value)


async def test_a_missing_keyring_says_what_to_install(house: House) -> None:
    vault = await house.vault(key="keyring")
    with pytest.raises(ConfigError, match="vault.key: .*keyring.*") as problem:
        await vault.put("ann", "github", CANARY)
    assert 'key = "file"' in str(problem.value)


async def first_key(config: Config) -> list[bytes]:
    keyring = wrapping(config)
    await keyring.create()
    return await keyring.keys()


async def test_the_systems_keyring_holds_the_key(house: House) -> None:
    keyring: Any = pytest.importorskip("keyring", reason="the package keyring is not installed")
    backend: Any = pytest.importorskip("keyring.backend")

    class InMemory(backend.KeyringBackend):  # the interface that every keyring of a system has
        priority = 1
        kept: ClassVar[dict[tuple[str, str], str]] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    try:
        await (await house.vault(key="keyring")).put("ann", "github", CANARY)
        first = dict(InMemory.kept)
        assert [service for service, _ in first] == ["wicket"]
        assert await (await house.vault(key="keyring")).rotate() == 1
        assert await (await house.vault(key="keyring")).get("ann", "github") == CANARY
        assert first != InMemory.kept
        elsewhere = Config(state_dir=str(house.folder / "other"), vault=VaultConfig(key="keyring"))
        made = await asyncio.gather(*(first_key(elsewhere) for _ in range(8)))
        assert all(key == made[0] for key in made)  # who comes second replaces nothing that is in use
        assert not (house.folder / "vault.key").exists()
    finally:
        keyring.set_keyring(before)


def test_a_full_disk_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parent / "full_vault.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, *rest = done.stdout.splitlines()
    assert "could not be used" in refused
    assert rest == ["read: first None", "read: first third"]
    assert "canary" not in done.stdout + done.stderr


def test_the_command_shows_and_rotates(shell: Shell) -> None:
    shell.run("init")
    assert shell.run("vault", "status", "--json").json["secrets"] == 0
    assert shell.run("vault", "rotate", "--json").json == {"secrets": 0}
    shown = shell.run("vault", "status").out
    assert "vault.key" in shown
    assert "0 credentials" in shown
