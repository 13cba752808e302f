"""Changing wicket.toml from the shell: what was written by hand stays as it was."""

import sys

from tests.cli.shell import Shell
from wicket_mcp.config.read.formats import load

BY_HAND = """\
# my servers
log_level = "error"   # quiet

# tells the time
[servers.time]
command = "mcp-server-time" # from pip

# the repository
[servers.git]
command = "mcp-server-git"

[servers.git.env]
GIT_PAGER = "cat"

[http]
port = 9000
"""


def test_the_first_server_makes_the_file_and_the_next_joins_it(shell: Shell) -> None:
    first = shell.run("add", "time", "--", "mcp-server-time", "--local-timezone", "UTC")
    assert first.code == 0, first.err
    assert str(shell.config) in first.out
    shell.run(
        "add", "hub", "--url", "https://hub.example/mcp", "--header", "X-Team: north", "--description", "The hub."
    )
    time, hub = load(shell.config).servers
    assert (time.command, time.args) == ("mcp-server-time", ("--local-timezone", "UTC"))
    assert (hub.url, hub.headers, hub.description) == ("https://hub.example/mcp", {"X-Team": "north"}, "The hub.")
    assert "time.convert_time" in shell.run("tools", "time").out


def test_secrets_given_on_the_command_line_do_not_land_in_the_configuration(shell: Shell) -> None:
    shell.run("add", "stars", "-e", "STARS_KEY=very-secret-value", "-e", "HOME_TOKEN", "-e", "MODE=dev", "--", "stars")
    (stars,) = load(shell.config).servers
    assert stars.env == {
        "STARS_KEY": "${file:secrets/stars.STARS_KEY}",
        "HOME_TOKEN": "${HOME_TOKEN}",
        "MODE": "dev",
    }
    assert "very-secret-value" not in shell.config.read_text("utf-8")


def test_removing_and_switching_leave_every_other_line_as_it_was(shell: Shell) -> None:
    file = shell.cwd / "wicket.toml"
    file.write_text(BY_HAND, "utf-8")
    assert shell.run("disable", "TIME").code == 0
    disabled = BY_HAND.replace("[servers.time]\n", "[servers.time]\nenabled = false\n")
    assert file.read_text("utf-8") == disabled
    shell.run("enable", "time")
    assert file.read_text("utf-8") == disabled.replace("enabled = false", "enabled = true")
    shell.run("remove", "git")
    start, end = BY_HAND.index("# the repository"), BY_HAND.index("[http]")
    without = BY_HAND[:start] + BY_HAND[end:]
    assert file.read_text("utf-8") == without.replace("[servers.time]\n", "[servers.time]\nenabled = true\n")


def test_what_cannot_be_changed_is_refused_and_left_alone(shell: Shell) -> None:
    file = shell.cwd / "wicket.toml"
    text = 'servers = ["time"]\n'
    file.write_text(text, "utf-8")
    done = shell.run("add", "git", "--", "mcp-server-git")
    assert done.code == 2
    assert f"{file}:1" in done.err
    assert file.read_text("utf-8") == text


def test_servers_in_an_inline_table_are_changed_there(shell: Shell) -> None:
    file = shell.cwd / "wicket.toml"
    file.write_text('servers = { time = { command = "mcp-server-time" } } # mine\n', "utf-8")
    assert shell.run("disable", "time").code == 0
    assert shell.run("add", "git", "--", "mcp-server-git").code == 0
    time, git = load(file).servers
    assert (time.enabled, git.command) == (False, "mcp-server-git")
    assert shell.run("remove", "time").code == 0
    assert [server.name for server in load(file).servers] == ["git"]
    assert file.read_text("utf-8").endswith("# mine\n")


def test_mistakes_are_named_with_what_to_do(shell: Shell) -> None:
    assert "wicket init" in shell.run("remove", "time").err
    shell.run("add", "time", "--", "mcp-server-time")
    taken = shell.run("add", "Time", "--", "other")
    assert (taken.code, "wicket remove time" in taken.err) == (2, True)
    assert "https://" in shell.run("add", "nothing").err
    assert "Did you mean 'time'?" in shell.run("disable", "tim").err
    assert "wicket import" in shell.run("add", "x", "--config", "mcp.json", "--", "x").err


def test_init_in_a_pipe_writes_a_first_file_and_asks_nothing(shell: Shell) -> None:
    shell.write(".cursor/mcp.json", '{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    done = shell.run("init")
    assert done.code == 0
    assert load(shell.config).servers == ()
    assert "wicket import cursor" in done.err
    again = shell.run("init")
    assert (again.code, "already exists" in again.err) == (2, True)
    assert shell.run("init", "--here", "--json").json == {"config": str(shell.cwd / "wicket.toml")}


def test_init_on_a_terminal_offers_what_clients_have(shell: Shell) -> None:
    shell.write(".cursor/mcp.json", '{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    shell.write(".gemini/settings.json", '{"mcpServers": {"old": {"command": "old-server"}}}')
    done = shell.type("init", answers=[("Cursor: time?", "y\n"), ("Gemini CLI: old?", "n\n")])
    assert done.code == 0, done.out
    assert [server.name for server in load(shell.config).servers] == ["time"]


def test_a_header_without_a_value_is_not_accepted(shell: Shell) -> None:
    done = shell.run("add", "docs", "https://docs.example/mcp", "--header", "NoColon")
    assert (done.code, "Write --header 'Name: value'" in done.err) == (2, True)
    assert not shell.config.exists()


def test_a_second_file_in_the_folder_is_not_offered_twice(shell: Shell) -> None:
    assert shell.run("init", "--here").code == 0
    again = shell.run("init", "--here")
    assert again.code == 2
    assert "--here" not in again.err


def test_a_server_that_cannot_be_listed_is_a_failure_and_an_unknown_one_names_all(shell: Shell) -> None:
    shell.run("add", "dead", "--", "python3", "-c", "import sys; sys.exit('boom: no API key')")
    listed = shell.run("tools", "dead")
    assert listed.code == 1
    assert "boom: no API key" in listed.err
    assert "There are dead." in shell.run("tools", "something").err


def test_what_keeps_a_new_server_from_starting_is_said_when_it_is_added(shell: Shell) -> None:
    wrong = shell.run("add", "time", "--", "mcp-server-tme")
    assert wrong.code == 0
    assert "time cannot start yet: its command 'mcp-server-tme' is not on the PATH. Install mcp-server-tme" in wrong.err
    header = "Authorization: Bearer ${env:SURELY_NOT_SET_ANYWHERE}"
    unset = shell.run("add", "gh", "https://127.0.0.1:9/mcp", "--header", header)
    assert "gh cannot start yet: needs SURELY_NOT_SET_ANYWHERE, which is not set." in unset.err
    assert "wicket tools" not in wrong.err + unset.err
    assert "See what it offers: wicket tools fine" in shell.run("add", "fine", "--", sys.executable).err
