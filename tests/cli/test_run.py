"""`wicket run`: a script from a file or a pipe."""

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from wicket_mcp.codec import encode


@pytest.fixture
def echo(shell: Shell) -> Shell:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))
    return shell


def test_the_value_goes_to_stdout_and_what_was_printed_beside_it(echo: Shell) -> None:
    (echo.cwd / "greet.lua").write_text("print('working') return {said = echo.echo({message = args.name}):await()}")
    done = echo.run("run", "greet.lua", "--arg", "name=Ada")
    assert (done.code, done.json, done.err) == (0, {"said": "Ada"}, "working\n")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("one.py", "return (await echo.echo(message=str(args['n'])))"),
        ("one.js", "return await echo.echo({message: String(args.n)})"),
        ("one.ts", "const n: number = args.n; return await echo.echo({message: String(n)})"),
    ],
)
def test_the_language_is_that_of_the_files_name(echo: Shell, file: str, source: str) -> None:
    (echo.cwd / file).write_text(source)
    done = echo.run("run", file, "--arg", "n:=42")
    assert (done.code, done.out) == (0, "42\n"), done.err


def test_a_failed_script_names_its_line_and_exits_with_one(echo: Shell) -> None:
    (echo.cwd / "bad.lua").write_text("local x = 1\necko.echo({message = 'hi'}):await()")
    done = echo.run("run", "bad.lua")
    assert (done.code, done.out) == (1, "")
    assert "line 2: ecko.echo" in done.err
    assert echo.run("run", "bad.lua", "--json").json["problem"]["line"] == 2


def test_wrong_usage_says_what_to_do(echo: Shell) -> None:
    (echo.cwd / "script.txt").write_text("return 1")
    assert "--language" in echo.run("run", "script.txt").err
    assert echo.run("run", "script.txt", "--language", "lua").out == "1\n"
    assert "key=value" in echo.run("run", "script.txt", "-l", "lua", "--arg", "name").err
    missing = echo.run("run", "nowhere.lua")
    assert (missing.code, "nowhere.lua: cannot be read" in missing.err) == (2, True)


def test_a_script_from_a_pipe_is_python_and_a_name_given_twice_is_a_list(echo: Shell) -> None:
    done = echo.run("run", "-", "--arg", "k=a", "--arg", "k=b", stdin="args['k']")
    assert (done.code, done.json) == (0, ["a", "b"]), done.err
