"""`wicket doctor`: each finding with its line that mends it, an exit code that tells, and fixes that are safe."""

import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from wicket_mcp.cli.checks import server as examined
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import Config


def _configure(shell: Shell, **servers: object) -> Path:
    file = shell.cwd / ".mcp.json"
    file.write_bytes(encode({"mcpServers": servers}))
    return file


def _levels(shell: Shell, *arguments: str) -> dict[tuple[str, str], str]:
    """The fixes of all that is not well, by level and subject."""
    findings = shell.run("doctor", "--json", *arguments).json
    return {(one["level"], one["about"]): one["fix"] for one in findings if one["level"] != "ok"}


def test_all_is_well_and_the_exit_code_says_so(shell: Shell) -> None:
    _configure(shell, echo=peer("Echo"))
    done = shell.run("doctor")
    assert "✓ echo: starts and lists 10 tools" in done.out
    assert done.code == 0, done.out
    assert "✗" not in done.out


def test_every_problem_has_a_line_that_mends_it(shell: Shell) -> None:
    _configure(
        shell,
        gone={"command": "no-such-program"},
        leaves=peer("ExitsAtOnce"),
        keyless={"command": "x", "env": {"KEY": "${NO_SUCH_KEY}"}},
        homeless={**peer("Echo"), "cwd": "no/such/folder"},
        extension={"source": "extension", "settings": {}},
    )
    done = shell.run("doctor", "--json")
    assert done.code == 1
    found = {one["about"]: one for one in done.json if one["level"] == "problem"}
    assert set(found) == {"gone", "leaves", "keyless", "homeless"}
    assert found["keyless"]["fix"] == "export NO_SUCH_KEY=…"
    assert found["homeless"]["fix"].startswith("mkdir -p")
    assert "no-such-program" in found["gone"]["fix"]
    assert all(one["fix"] for one in done.json if one["level"] != "ok")
    assert any("'extension' is left out" in one["message"] for one in done.json)
    assert "hunter2" not in done.out, "what a server says may hold its secrets"


def test_a_configuration_that_cannot_be_read_is_a_finding_too(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text("[servers.time]\ncomand = 'x'\n")
    done = shell.run("doctor")
    assert done.code == 1
    assert "fix: Did you mean 'command'?" in done.out
    assert "wicket.toml:2" in done.out
    missing = Shell.at(shell.home / "elsewhere").run("doctor")
    assert (missing.code, "wicket add" in missing.out) == (1, True)


def test_fix_mends_permissions_and_nothing_else(shell: Shell) -> None:
    file = _configure(shell, echo=peer("Echo", env={"API_TOKEN": "a-literal-secret"}))
    file.chmod(0o644)
    before = file.read_bytes()
    assert ("warning", "configuration") in _levels(shell, "--no-start")
    assert shell.run("doctor", "--fix", "--no-start").code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_bytes() == before
    assert ("warning", "configuration") not in _levels(shell, "--no-start")


def test_a_state_file_of_a_later_version_is_a_finding_among_the_others(shell: Shell) -> None:
    _configure(shell, echo=peer("Echo"))
    assert shell.run("doctor").code == 0
    (file,) = shell.home.rglob("wicket.db")
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 999")
    done = shell.run("doctor")
    assert done.code == 1
    assert "newer Wicket (format 999" in done.out
    assert "fix: Upgrade Wicket" in done.out
    assert "✓ configuration" in done.out


def test_strict_makes_warnings_count(shell: Shell) -> None:
    _configure(shell, time={"command": "uvx", "args": ["mcp-server-time"], "disabled": False}, echo=peer("Echo"))
    port_taken = socket.create_server(("127.0.0.1", 0))
    (shell.cwd / "wicket.toml").write_text(
        f"[http]\nport = {port_taken.getsockname()[1]}\n[servers.time]\ncommand = 'mcp-server-time'\n"
    )
    with port_taken:
        assert ("warning", "port") in _levels(shell, "--no-start")
        assert shell.run("doctor", "--no-start").code == 0
        assert shell.run("doctor", "--no-start", "--strict").code == 1


@pytest.mark.parametrize(
    ("command", "args", "pin"),
    [
        ("npx", ["-y", "pkg"], '"pkg@VERSION"'),
        ("npx", ["-y", "@scope/pkg", "/folder"], '"@scope/pkg@VERSION"'),
        ("npx", ["-y", "@scope/pkg@1.2.3"], None),
        ("npx", ["-y", "pkg@latest"], '"pkg@VERSION"'),
        ("uvx", ["mcp-server-time"], '"mcp-server-time==VERSION"'),
        ("uvx", ["mcp-server-time==1.0"], None),
        ("uvx", ["mcp-server-time@1.0"], None),
        ("docker", ["run", "-i", "--rm", "stars/mcp"], '"stars/mcp@sha256:DIGEST"'),
        ("docker", ["run", "-it", "-e", "A=b/c", "mcp", "a/b"], '"mcp@sha256:DIGEST"'),
        ("docker", ["run", "-i", "--rm", "stars/mcp:1.2"], '"stars/mcp:1.2@sha256:DIGEST"'),
        ("docker", ["run", "-v", "/a:/b", "--name=x", "ghcr.io/stars/mcp@sha256:00"], None),
        ("docker", ["ps"], None),
        ("python", ["server.py"], None),
    ],
)
@pytest.mark.promise("T19", "Wicket names launchers that fetch the newest version.")
def test_t19_launchers_that_fetch_the_newest_are_named(command: str, args: list[str], pin: str | None) -> None:
    config = Config.from_dict({"servers": {"one": {"command": command, "args": args}}})
    fixes = [one.fix.partition(", or")[0] for one in examined(config.servers[0], config) if "newest" in one.message]
    assert fixes == ([f"Pin it in its args: {pin}"] if pin else [])


def test_a_command_that_holds_its_arguments_is_told_where_they_go(shell: Shell) -> None:
    _configure(
        shell,
        time={"command": "mcp-server-time --local-timezone UTC"},
        gone={"command": "no-such-program --local-timezone UTC"},
    )
    problems = _levels(shell, "--no-start")
    assert "into args" in problems["problem", "time"]
    assert "into args" not in problems["problem", "gone"]


def test_problems_come_first_with_what_the_server_printed_and_unpinned_packages_are_one_line(shell: Shell) -> None:
    says = "import sys; print('reading settings\\nboom: API_KEY is missing', file=sys.stderr); sys.exit(3)"
    _configure(
        shell,
        echo=peer("Echo"),
        one={"command": "npx", "args": ["-y", "pkg"], "env": {"KEY": "${NO_SUCH_KEY}"}},
        two={"command": "npx", "args": ["-y", "other"], "env": {"KEY": "${NO_SUCH_KEY}"}},
        dies={"command": sys.executable, "args": ["-c", says]},
        leaks=peer("ExitsAtOnce"),
    )
    lines = shell.run("doctor").out.splitlines()
    marks = [line[0] for line in lines if line[0] in "✓!✗"]
    assert marks == sorted(marks, key="✗!✓".index)
    at = next(place for place, line in enumerate(lines) if line.startswith("✗ dies: "))
    assert lines[at + 1 : at + 3] == ["    | reading settings", "    | boom: API_KEY is missing"]
    (unpinned,) = [line for line in lines if "newest" in line]
    assert unpinned.startswith("! versions: 2 servers run the newest version of their package")
    assert unpinned.endswith(": one (pkg), two (other)")
    assert "    | cannot find my config, token=***" in lines, "what a server says may hold its secrets"
