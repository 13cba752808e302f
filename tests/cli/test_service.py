"""`wicket service`: the files that systemd and launchd get."""

import plistlib
import sys

from tests.cli.shell import Shell
from wicket_mcp.cli.service import plist, unit


def test_a_unit_is_written_and_removed(shell: Shell) -> None:
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text("")
    done = shell.run("service", "install", "--http", "127.0.0.1:8377", "--workers", "2", "--no-start")
    assert done.code == 0, done.err
    file = shell.home / ".config" / "systemd" / "user" / "wicket.service"
    assert done.out == f"written: {file}\n"
    served = f"{sys.executable} -P -m wicket_mcp serve --http 127.0.0.1:8377 --workers 2 --config {shell.config}"
    assert f"ExecStart={served}\n" in file.read_text()
    assert shell.run("service", "uninstall").out == f"removed: {file}\n"
    assert not file.exists()
    assert "no service" in shell.run("service", "uninstall").err


def test_printing_changes_nothing(shell: Shell) -> None:
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text("")
    done = shell.run("service", "install", "--print")
    assert "ExecReload=/bin/kill -HUP $MAINPID" in done.out
    assert not (shell.home / ".config" / "systemd").exists()


def test_a_service_that_listens_on_for_a_balancer_has_longer_to_stop(shell: Shell) -> None:
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text('[http]\nleave_after = "90s"\n')
    assert "TimeoutStopSec=150\n" in shell.run("service", "install", "--print").out


def test_without_a_service_manager_it_says_so(shell: Shell) -> None:
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text("")
    done = shell.run("service", "install", PATH="/nowhere")
    assert done.code == 2
    assert "systemctl was not found" in done.err


def test_a_service_manager_that_cannot_be_reached_is_named_with_its_reason(shell: Shell) -> None:
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text("")
    manager = shell.home / "systemctl"
    manager.write_text("#!/bin/sh\necho Created symlink. >&2\necho Failed to connect to bus >&2\nexit 1\n")
    manager.chmod(0o755)
    done = shell.run("service", "install", PATH=str(shell.home))
    assert done.code == 2
    assert "enable --now wicket.service failed: Failed to connect to bus. The file is written." in done.err


def test_arguments_reach_the_command_as_they_are() -> None:
    text = unit(["/opt/my python", "-c", 'a"b%c$d\\e', "plain"], 60)
    assert r"""ExecStart="/opt/my python" -c "a\"b%%c$$d\\e" plain""" in text


def test_launchd_gets_every_argument() -> None:
    command = ["/opt/my python", "-m", "wicket_mcp", "serve", "--config", "/a & b.toml"]
    agent = plistlib.loads(plist(command, 90).encode())
    assert agent["ProgramArguments"] == command
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ExitTimeOut"] == 90
