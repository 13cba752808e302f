"""The state folder decides who gets in: nothing in it may come from another user of the machine."""

import os
from pathlib import Path

import pytest

from tests import needs
from tests.cli.shell import Shell
from wicket_mcp.errors import ConfigError
from wicket_mcp.identity.key_file import format_keys, read_keys
from wicket_mcp.store.open import STATE_FILE, open_store
from wicket_mcp.surface.owner_token import load_token

NOBODY = 65534


def planted(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    os.chown(file, NOBODY, NOBODY)
    return file


@pytest.mark.skipif(os.geteuid() != 0, reason=needs.OTHER_USERS)
@pytest.mark.promise("T18", "A token, a key or a state that another user of the machine has planted is refused.")
def test_t18_a_folder_of_another_user_is_not_taken_as_ours(shell: Shell) -> None:
    """W21."""
    state = shell.cwd / "state"
    planted(state, "token", "a-token-that-nobody-chose")
    shell.write("work/wicket.toml", 'state_dir = "state"\n')
    for whose in (NOBODY, 0):  # the folder is theirs, then only what is in it
        os.chown(state, whose, whose)
        for arguments in (("serve", "--http", "127.0.0.1:0"), ("dashboard", "--no-open")):
            done = shell.run(*arguments)
            assert (done.code, "belongs to another user (uid 65534). Set 'state_dir'" in done.err) == (2, True), done
    assert sorted(file.name for file in state.iterdir()) in (["token"], ["token", STATE_FILE])


@pytest.mark.skipif(os.geteuid() != 0, reason=needs.OTHER_USERS)
async def test_each_file_that_another_user_has_planted_is_refused(tmp_path: Path) -> None:
    """W21."""
    token = planted(tmp_path / "a", "token", "x" * 32)
    with pytest.raises(ConfigError, match="belongs to another user"):
        load_token(token.parent)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_keys(planted(tmp_path / "b", "sealing.key", format_keys([bytes(32)])))
    planted(tmp_path / "db", STATE_FILE, "")
    with pytest.raises(ConfigError, match="belongs to another user"):
        await open_store(tmp_path / "db" / STATE_FILE)


async def test_a_folder_that_others_may_write_to_is_closed_to_them(tmp_path: Path) -> None:
    """W21."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o775)
    load_token(folder)
    assert folder.stat().st_mode & 0o777 == 0o755


async def test_a_folder_for_the_files_of_all_users_is_refused(tmp_path: Path) -> None:
    """W21."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(ConfigError, match="for the files of all users. Set 'state_dir'"):
        load_token(folder)
    with pytest.raises(ConfigError, match="for the files of all users"):
        await open_store(folder / STATE_FILE)
    assert list(folder.iterdir()) == []
