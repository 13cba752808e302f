"""Which configuration is used, and where the platform's folders are."""

from pathlib import Path

import pytest

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read import locate
from wicket_mcp.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user with a configuration in every place; tests take away what should not be found."""
    for place in ("named.json", "variable.toml", "work/wicket.toml", "work/.mcp.json", "config/wicket/wicket.toml"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("absent", "found"),
    [
        ([], "work/wicket.toml"),
        (["work/wicket.toml"], "work/.mcp.json"),
        (["work/wicket.toml", "work/.mcp.json"], "config/wicket/wicket.toml"),
    ],
)
def test_the_nearest_configuration_is_used(home: Path, absent: list[str], found: str) -> None:
    for place in absent:
        (home / place).unlink()
    environ = {"XDG_CONFIG_HOME": str(home / "config"), "HOME": str(home)}
    assert locate.find_config(None, environ, home / "work") == home / found


def test_what_is_named_wins_over_what_is_found(home: Path) -> None:
    environ = {"WICKET_CONFIG": str(home / "variable.toml"), "HOME": str(home)}
    assert locate.find_config(None, environ, home / "work") == home / "variable.toml"
    assert locate.find_config("../named.json", environ, home / "work") == home / "work" / "../named.json"


@pytest.mark.parametrize(
    ("explicit", "environ", "says"),
    [
        ("gone.toml", {}, r"gone\.toml: does not exist \(named by --config\)"),
        (None, {"WICKET_CONFIG": "gone.toml"}, r"does not exist \(named by \$WICKET_CONFIG\)"),
        ("work", {}, r"is a folder, not a file"),
    ],
)
def test_a_named_file_that_is_absent_is_an_error_and_not_passed_over(
    home: Path, explicit: str | None, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        locate.find_config(explicit, environ, home)


def test_no_configuration_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        locate.find_config(None, {"HOME": str(tmp_path)}, tmp_path)
    assert str(tmp_path / ".mcp.json") in str(caught.value)
    assert "'wicket init'" in str(caught.value)
    assert "wicket add" in caught.value.hint
    assert "--config" in caught.value.hint


@pytest.mark.parametrize(
    ("platform", "environ", "config", "state"),
    [
        ("linux", {}, "/home/ada/.config/wicket", "/home/ada/.local/state/wicket"),
        ("linux", {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/wicket", "/s/wicket"),
        ("linux", {"XDG_CONFIG_HOME": "c"}, "/home/ada/.config/wicket", "/home/ada/.local/state/wicket"),
        (
            "darwin",
            {"XDG_STATE_HOME": "/s"},
            "/home/ada/Library/Application Support/wicket",
            "/home/ada/Library/Application Support/wicket",
        ),
        ("win32", {"APPDATA": "/r", "LOCALAPPDATA": "/l"}, "/r/wicket", "/l/wicket"),
    ],
)
def test_the_platforms_folders(platform: str, environ: dict[str, str], config: str, state: str) -> None:
    environ = {"HOME": "/home/ada", **environ}
    assert locate.config_folder(environ, platform) == Path(config)
    assert locate.state_folder(environ, platform) == Path(state)


def test_state_dir_is_relative_to_the_configuration() -> None:
    assert Config(state_dir="state", path=Path("/etc/wicket/wicket.toml")).state_path == Path("/etc/wicket/state")
    assert Config(state_dir="/var/wicket").state_path == Path("/var/wicket")
    assert Config(state_dir="~/w").state_path == Path.home() / "w"
    assert Config().state_path == locate.state_folder()
