"""Claude Desktop's file: only the entry in question changes, and nothing is left behind."""

from pathlib import Path

import pytest

from wicket_mcp.errors import ConfigError
from wicket_mcp.registry import claude

COMMENTED = """{
  // mine
  "theme": "dark",
  "mcpServers": {
    // tells the time
    "time": {"command": "time"} /* end */
  }
}
"""


def test_comments_and_layout_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(COMMENTED, "utf-8")
    claude.put(path, "git", {"command": "git", "env": {"GIT_TOKEN": "secret"}})
    assert [entry["name"] for entry in claude.servers(path)] == ["git", "time"]
    for comment in ("// mine", "// tells the time", "/* end */"):
        assert comment in path.read_text("utf-8")
    claude.remove(path, "git")
    assert path.read_text("utf-8") == COMMENTED


def test_a_file_without_servers_or_without_anything_gets_a_section(tmp_path: Path) -> None:
    for number, text in enumerate(("{}", '{"theme": "dark"}', "", None)):
        path = tmp_path / f"{number}.json"
        if text is not None:
            path.write_text(text, "utf-8")
        claude.put(path, "git", {"command": "git"})
        assert claude.servers(path) == [{"name": "git", "mode": "direct", "command": "git", "args": []}]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "config.json"
    path.mkdir(parents=True)
    (path / "in the way").touch()
    with pytest.raises(ConfigError, match="cannot be"):
        claude.put(path, "git", {"command": "git"})
    assert [file.name for file in path.parent.iterdir()] == ["config.json"]


@pytest.mark.parametrize("text", ["{", "[1]", '{"mcpServers": []}', "a: 1\n"])
def test_what_cannot_be_understood_is_not_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError):
        claude.put(path, "git", {"command": "git"})
    assert path.read_text("utf-8") == text
