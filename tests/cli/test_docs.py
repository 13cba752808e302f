"""The documentation is kept to its word: what it shows is run, what it names exists, what exists is named."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

from tests.cli.pages import DOCS, README, blocks, headings, shell_commands, transcript
from tests.cli.shell import PATIENCE, Shell
from wicket_mcp import errors
from wicket_mcp.cli import app
from wicket_mcp.config.model.config import Dialect
from wicket_mcp.config.read.client_files import CLIENTS, folders, user_files
from wicket_mcp.config.read.formats import parse

PAGES = sorted(DOCS.glob("*.md"))
MINE = [
    DOCS / name for name in ("index.md", "clients.md", "cookbook.md", "command-line.md", "dialects.md", "security.md")
]


@pytest.fixture
def with_uvx(shell: Shell) -> Shell:
    """A shell whose `uvx` runs the servers that are installed beside Python, instead of fetching them."""
    beside = Path(sys.executable).parent
    script = shell.write("bin/uvx", f'#!/bin/sh\nprogram="$1"; shift\nexec "{beside}/$program" "$@"\n')
    script.chmod(0o755)
    path = f"{script.parent}:{shell.environ['PATH']}"
    return Shell(shell.home, shell.cwd, {"PATH": path})


def _codes(kind: type[errors.WicketError]) -> set[str]:
    own = {kind.code} if "code" in vars(kind) else set[str]()
    return own.union(*(_codes(child) for child in kind.__subclasses__()))


def test_every_error_code_has_a_heading_and_every_heading_an_error() -> None:
    named = set(headings(DOCS / "troubleshooting.md", 2)) - {"Questions"}
    assert named == _codes(errors.WicketError)


def test_every_dialect_has_a_heading() -> None:
    assert set(headings(DOCS / "dialects.md", 2)) == set(get_args(Dialect))


def test_every_client_is_in_the_table_with_the_file_that_is_looked_at() -> None:
    page = (DOCS / "clients.md").read_text("utf-8")
    places = folders({"HOME": "/h"}, "linux", Path("/w"))
    for client in CLIENTS.values():
        (row,) = [line for line in page.splitlines() if f"| `{client.id}` |" in line]
        first = str(user_files(client, places)[0].path).replace("/h/", "~/")
        assert row.startswith(f"| {client.title} |")
        assert first in row


def test_every_verb_has_a_heading() -> None:
    named = {heading.removeprefix("wicket ") for heading in headings(DOCS / "command-line.md", 3)}
    assert _commands().keys() <= named
    assert named - _commands().keys() <= {"run", "approve"}


def test_no_page_is_an_orphan() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []
    assert len(pages) > len(PAGES)


WITH_COMMANDS = [page for page in (*MINE, README) if list(shell_commands(page))]
WITH_CONFIGURATION = [
    page for page in (*MINE, README, DOCS / "configuration.md") if blocks(page, "toml") or blocks(page, "json")
]


def test_most_of_these_pages_show_commands_and_configurations() -> None:
    assert {"index.md", "clients.md", "cookbook.md", "command-line.md"} <= {page.name for page in WITH_COMMANDS}
    assert {"clients.md", "cookbook.md", "dialects.md", "security.md"} <= {page.name for page in WITH_CONFIGURATION}
    assert README in WITH_COMMANDS
    assert README in WITH_CONFIGURATION


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_that_are_shown_exist(page: Path) -> None:
    commands = _commands()
    for words in shell_commands(page):
        if words[0].startswith("-"):
            continue
        verb = commands.get(words[0])
        if words[0] == "run" and verb is None:
            continue
        assert verb is not None, words
        known = {name for parameter in verb.params for name in parameter.opts}
        given = words[: words.index("--")] if "--" in words else words
        wrong = [word for word in given if word.startswith("-") and word.partition("=")[0] not in {*known, "-"}]
        assert not wrong, words


@pytest.mark.parametrize("page", WITH_CONFIGURATION, ids=lambda page: page.name)
def test_the_configuration_that_is_shown_is_read(page: Path) -> None:
    for language in ("toml", "json"):
        for text in blocks(page, language):
            assert parse(text).servers, text


def test_the_quick_start_does_what_it_says(with_uvx: Shell) -> None:
    steps = transcript(DOCS / "index.md")
    assert len(steps) >= 8
    for step in steps:
        assert step.command[0] == "wicket"
        done = with_uvx.run(*step.command[1:])
        assert done.code == 0, (step.command, done.err)
        missing = step.missing_from(done.out)
        assert missing is None, f"{' '.join(step.command)} does not print {missing!r} but\n{done.out}"


def test_the_library_example_of_the_quick_start_runs(with_uvx: Shell) -> None:
    with_uvx.run("add", "time", "--config", "wicket.toml", "--", "uvx", "mcp-server-time")
    (example,) = blocks(DOCS / "index.md", "python")
    imports, body = example.split("\n\n", 1)
    lines = [*body.rstrip().splitlines(), "    print(hits[0].tool.key, result['content'])"]
    main = "".join(f"    {line}\n" for line in lines)
    code = f"import asyncio\n{imports}\nasync def main():\n{main}asyncio.run(main())\n"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=with_uvx.cwd, env=with_uvx.environ, capture_output=True, timeout=PATIENCE, check=False
    )
    assert b"time." in done.stdout, done.stderr
    assert b"Asia/Tokyo" in done.stdout


def _commands() -> dict[str, Any]:
    tree: Any = get_command(app)
    return dict(tree.commands)
