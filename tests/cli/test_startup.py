"""What a command loads: a person who asks for help or a tool waits for nothing else."""

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.shell import PATIENCE, Shell
from tests.conftest import peer
from tests.peers.ports import free_port
from wicket_mcp.cli import app
from wicket_mcp.cli.verbs import VERBS
from wicket_mcp.codec import encode

ROOMS = {"app", "surface", "dialects", "registry", "scripts"}
HEAVY = {"rich", "aiohttp", "uvicorn", "yaml", "re2", "jsonschema_rs", "lupa", "pydantic"}
PROGRAM = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
from wicket_mcp.cli import main
main()
"""


def loaded(shell: Shell, *arguments: str, status: int = 0) -> set[str]:
    """Every module that has been imported when the command ends, by its full name."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(
        command, cwd=shell.cwd, env=shell.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == status, done.stderr
    return set(done.stderr.split())


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("wicket_mcp.")}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_loads_neither_a_verb_nor_what_verbs_need(shell: Shell, arguments: tuple[str, ...]) -> None:
    modules = loaded(shell, *arguments)
    own = {name for name in modules if name.startswith("wicket_mcp.")}
    assert own == {"wicket_mcp.cli", "wicket_mcp.cli.root", "wicket_mcp.cli.verbs", "wicket_mcp.errors"}
    assert not packages(modules) & (HEAVY | {"msgspec", "asyncio", "numpy", "sqlite3"})


def test_help_on_a_verb_loads_that_verb_alone(shell: Shell) -> None:
    modules = loaded(shell, "search", "--help")
    assert "wicket_mcp.cli.catalog" in modules
    assert not {"wicket_mcp.cli.manage", "wicket_mcp.cli.registry", "wicket_mcp.cli.serve"} & modules
    assert not packages(modules) & (HEAVY | {"msgspec", "asyncio", "numpy", "sqlite3"})


def test_search_loads_no_room_that_it_does_not_enter(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    shell.run("tools")
    modules = loaded(shell, "search", "echo a message")
    assert "numpy" in modules
    assert rooms(modules) & ROOMS <= {"scripts"}
    words_and_numbers = {"wicket_mcp.scripts.languages"}
    assert {name for name in modules if name.startswith("wicket_mcp.scripts.")} <= words_and_numbers
    assert not packages(modules) & HEAVY


def test_the_dashboard_is_opened_without_what_only_a_gateway_needs(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text(f"[http]\nport = {free_port()}\n")
    modules = loaded(shell, "dashboard", "--config", "wicket.toml", status=1)  # where nobody serves
    assert "wicket_mcp.surface.owner_token" in modules
    assert not {"wicket_mcp.surface.guard", "wicket_mcp.store", "wicket_mcp.identity"} & modules
    assert not packages(modules) & (HEAVY | {"asyncio", "http", "ssl", "webbrowser", "numpy", "sqlite3"})


def test_the_summary_of_every_verb_is_how_its_own_help_begins() -> None:
    tree: Any = get_command(app)
    commands = tree.commands
    assert [verb.name for verb in VERBS] == list(commands)
    for verb in VERBS:
        assert commands[verb.name].help.splitlines()[0] == verb.summary
        assert commands[verb.name].name == verb.name


def test_a_gateway_where_nobody_signs_in_loads_nothing_of_it(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    modules = loaded(shell, "call", "echo.echo", "message=hello")
    assert "wicket_mcp.app" in modules
    assert not {name for name in modules if name.startswith("wicket_mcp.identity.oauth")}
    assert not packages(modules) & {"cryptography", "joserfc", "aiohttp", "keyring"}


def test_a_first_client_waits_for_nothing_that_only_scripts_searches_or_new_files_need() -> None:
    program = "import sys, wicket_mcp.app, wicket_mcp.daemon.server; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)
    needless = {"ctypes", "tempfile", "email.utils", "importlib.resources", "typer", "wicket_mcp.scripts.jail"}
    assert not needless & set(done.stdout.split())
