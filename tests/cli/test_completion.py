"""Tab: server and tool names from what is stored, without starting or asking anything."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from wicket_mcp.codec import encode


def completed(shell: Shell, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    line = {"COMP_WORDS": " ".join(("wicket", *words)), "COMP_CWORD": str(len(words))}
    return shell.run(_WICKET_COMPLETE="complete_bash", **line).out.split()


@pytest.fixture
def started(shell: Shell) -> Path:
    """A file that is made when the server starts."""
    return shell.home / "started"


@pytest.fixture
def known(shell: Shell, started: Path) -> Shell:
    """A shell whose catalogue has been filled once."""
    real = peer("Echo")
    script = f"touch {started}; exec {real['command']} {' '.join(real['args'])}"
    servers = {"echo": {"command": "sh", "args": ["-c", script]}, "other": {"command": "never-started"}}
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": servers}))
    shell.run("tools", "echo")
    started.unlink()
    return shell


def test_names_come_from_the_stored_catalogue_and_nothing_starts(known: Shell, started: Path) -> None:
    assert completed(known, "tools", "") == ["echo", "other"]
    assert completed(known, "call", "echo.re") == ["echo.refuses", "echo.release"]
    assert completed(known, "describe", "rel") == ["release"]
    assert completed(known, "search", "--server", "ot") == ["other"]
    assert not started.exists()


def test_verbs_and_clients_complete_too(shell: Shell) -> None:
    assert completed(shell, "desc") == ["describe"]
    assert completed(shell, "import", "c") == [
        "claude-desktop",
        "claude-code",
        "cursor",
        "codex",
        "cline",
        "copilot",
        "copilot-jetbrains",
    ]


def test_nothing_to_read_is_no_suggestion_and_no_error(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_text("{ broken")
    done = shell.run(_WICKET_COMPLETE="complete_bash", COMP_WORDS="wicket call e", COMP_CWORD="2")
    assert (done.out.strip(), done.err) == ("", "")
