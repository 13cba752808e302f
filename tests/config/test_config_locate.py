"""Which configuration is used, and where the platform's folders are."""

import sys
from pathlib import Path

import pytest
from tests import needs

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read import locate
from wicket_mcp.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a configuration in every place; tests take away what should not be found."""
    for place in ("named.json", "variable.toml", "work/wicket.toml", "work/.mcp.json", "config/wicket/wicket.toml"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    for variable in ("WICKET_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize(
    ("absent", "found"),
    [
        ([], "work/wicket.toml"),
        (["work/wicket.toml"], "work/.mcp.json"),
        (["work/wicket.toml", "work/.mcp.json"], "config/wicket/wicket.toml"),
    ],
)
def test_the_nearest_configuration_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, absent: list[str], found: str
) -> None:
    for place in absent:
        (home / place).unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    assert locate.find_config() == home / found


def test_what_is_named_wins_over_what_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WICKET_CONFIG", str(home / "variable.toml"))
    assert locate.find_config() == home / "variable.toml"
    assert locate.find_config("../named.json") == home / "work" / "../named.json"


@pytest.mark.parametrize(
    ("explicit", "variable", "says"),
    [
        ("gone.toml", "", r"gone\.toml: does not exist \(named by --config\)"),
        (None, "gone.toml", r"does not exist \(named by \$WICKET_CONFIG\)"),
        ("../work", "", r"is a folder, not a file"),
    ],
)
def test_a_named_file_that_is_absent_is_an_error_and_not_passed_over(
    home: Path, monkeypatch: pytest.MonkeyPatch, explicit: str | None, variable: str, says: str
) -> None:
    monkeypatch.setenv("WICKET_CONFIG", variable)
    with pytest.raises(ConfigError, match=says):
        locate.find_config(explicit)


def test_no_configuration_at_all_says_what_to_do(home: Path) -> None:
    for place in ("wicket.toml", ".mcp.json"):
        (home / "work" / place).unlink()
    with pytest.raises(ConfigError) as caught:
        locate.find_config()
    assert str(home / "work" / ".mcp.json") in str(caught.value)
    assert "'wicket init'" in str(caught.value)
    assert "wicket add" in caught.value.hint
    assert "--config" in caught.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason=needs.LINUX)
@pytest.mark.parametrize(
    ("environ", "config", "state"),
    [
        ({}, "{home}/.config/wicket", "{home}/.local/state/wicket"),
        ({"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/wicket", "/s/wicket"),
        ({"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s"}, "{home}/.config/wicket", "{home}/.local/state/wicket"),
    ],
)
def test_the_platforms_folders(
    home: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], config: str, state: str
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    assert locate.config_folder() == Path(config.format(home=home))
    assert locate.state_folder() == Path(state.format(home=home))


def test_state_dir_is_relative_to_the_configuration() -> None:
    assert Config(state_dir="state", path=Path("/etc/wicket/wicket.toml")).state_path == Path("/etc/wicket/state")
    assert Config(state_dir="/var/wicket").state_path == Path("/var/wicket")
    assert Config(state_dir="~/w").state_path == Path.home() / "w"
    assert Config().state_path == locate.state_folder()
