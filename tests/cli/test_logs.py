"""`wicket logs` and `wicket status`: what happened, found again by somebody else later."""

import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.shell import Shell, Terminal
from tests.conftest import OpenGateway, peer
from wicket_mcp.codec import decode, encode
from wicket_mcp.store.audit_file import line_of
from wicket_mcp.store.model import CallRecord

if TYPE_CHECKING:
    from tests.peers.postgres import Postgres


def configured(shell: Shell) -> None:
    (shell.cwd / ".mcp.json").write_bytes(encode({"mcpServers": {"echo": peer("Echo")}}))


def lines(text: str) -> list[dict[str, object]]:
    return [decode(line) for line in text.splitlines()]


def test_calls_are_shown_and_found_by_what_is_asked(shell: Shell) -> None:
    configured(shell)
    shell.run("call", "echo.echo", "message=hello")
    shell.run("call", "echo.fails")
    shell.run("call", "echo.refuses")
    every = lines(shell.run("logs", "--json").out)
    assert [(record["tool"], record["outcome"]) for record in every] == [
        ("echo", "ok"),
        ("fails", "error"),
        ("refuses", "upstream_error"),
    ]
    first = every[0]
    assert (first["server"], first["principal"], first["tokens_in"]) == ("echo", "local", 5)
    steps: dict[str, float] = first["steps_ms"]  # pyright: ignore[reportAssignmentType]
    assert list(steps) == ["audit", "resolve", "arguments", "forward", "server"]
    assert sum(steps.values()) == pytest.approx(first["duration_ms"], abs=0.01)
    assert "hello" not in encode(every).decode()
    failed = lines(shell.run("logs", "--json", "--outcome", "failed", "--server", "echo", "--since", "1h").out)
    assert [record["tool"] for record in failed] == ["fails", "refuses"]
    assert [record["tool"] for record in lines(shell.run("logs", "--json", "--tool", "echo.echo").out)] == ["echo"]
    shown = shell.run("logs").out.splitlines()
    assert len(shown) == 3
    assert "echo.echo by local" in shown[0]
    assert "upstream_error" in shown[2]


def test_records_are_followed_as_they_are_made(shell: Shell) -> None:
    configured(shell)
    shell.run("call", "echo.pid")
    with Terminal(shell, ("logs", "--follow", "--server", "echo"), 200) as terminal:
        terminal.wait_for("echo.pid")
        shell.run("call", "echo.echo", "message=hello")
        terminal.wait_for("echo.echo")
        terminal.interrupt()
        assert terminal.finish().code == 0


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["words", "json"])
def test_what_goes_on_sends_each_line_at_once_into_a_pipe_too(shell: Shell, form: tuple[str, ...]) -> None:
    configured(shell)
    shell.run("call", "echo.pid")
    with shell.follow("logs", "--follow", *form) as told:
        assert "pid" in next(told)
        shell.run("call", "echo.fails")
        assert "fails" in next(told)


def test_a_record_that_another_gateway_writes_late_is_followed_too(shell: Shell, postgres: "Postgres") -> None:
    psycopg = pytest.importorskip("psycopg")
    address = postgres.database()
    (shell.cwd / "wicket.toml").write_text(f'store = "{address}"\n')
    shell.run("trust", ".")
    assert shell.run("logs").code == 0
    columns = "at, principal, server, tool, arguments_digest, outcome, duration_ms, result_bytes"
    made = f"INSERT INTO audit ({columns}) VALUES (%s, 'ann', 'x', %s, '', 'ok', 1, 1)"  # noqa: S608  (our own words)

    def make(connection: Any, tool: str) -> None:
        connection.execute(made, (time.time(), tool))

    with psycopg.connect(address) as quick, psycopg.connect(address) as slow:
        make(quick, "first")
        quick.commit()
        with Terminal(shell, ("logs", "--follow"), 200) as terminal:
            terminal.wait_for("x.first")
            make(slow, "late")  # has the next position, and is not committed yet
            make(quick, "second")
            quick.commit()
            terminal.wait_for("x.second")
            slow.commit()
            terminal.wait_for("x.late")
            terminal.interrupt()
            finished = terminal.finish()
    assert (finished.code, finished.out.count("x.second")) == (0, 1)


def test_top_shows_what_is_called_while_one_looks(shell: Shell) -> None:
    configured(shell)
    shell.run("call", "echo.pid")
    seen = shell.run("top", "--json").json
    assert (seen["servers"]["echo"]["calls"], seen["latest"][0]["tool"]) == (1, "echo.pid")
    assert "echo.pid" in shell.run("top").out
    with Terminal(shell, ("top", "--every", "0.2"), 100) as terminal:
        terminal.wait_for("echo.pid")
        shell.run("call", "echo.fails")
        terminal.wait_for("echo.fails")
        terminal.interrupt()
        assert terminal.finish().code == 0


def test_administrative_acts_are_recorded(shell: Shell) -> None:
    configured(shell)
    shell.run("keys", "create", "ci", "--scope", "discover")
    shell.run("keys", "revoke", "ci")
    acts = [(record["tool"], record["detail"]) for record in lines(shell.run("logs", "--json").out)]
    assert acts == [("create key", "ci: discover"), ("revoke key", "ci")]


def test_what_a_person_does_on_the_command_line_is_in_the_file_for_other_programs_too(shell: Shell) -> None:
    (shell.cwd / "wicket.toml").write_text('[audit]\nfile = "audit.jsonl"\n')
    assert shell.run("vault", "rotate", "--config", "wicket.toml").code == 0
    (record,) = lines((shell.cwd / "audit.jsonl").read_text("utf-8"))
    assert (record["principal"], record["tool"], record["detail"]) == ("local", "rotate vault", "0 credentials")


def test_status_sums_up_the_last_hour(shell: Shell) -> None:
    configured(shell)
    shell.run("call", "echo.echo", "message=hello")
    shell.run("call", "echo.fails")
    row = shell.run("status", "--json").json["last_hour"]["echo"]
    assert (row["calls"], row["failed"]) == (2, 1)
    assert row["p95_ms"] >= row["p50_ms"] > 0
    assert "last hour" in shell.run("status").out


async def test_the_file_has_a_line_of_json_for_each_record(open_gateway: OpenGateway, tmp_path: Path) -> None:
    file = tmp_path / "audit" / "audit.jsonl"
    async with open_gateway({"echo": peer("Echo")}, audit={"file": str(file)}) as gateway:
        await gateway.call("echo.echo", {"message": "hello"})
    (record,) = lines(file.read_text("utf-8"))
    assert (record["tool"], record["outcome"]) == ("echo", "ok")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_file_that_cannot_be_written_costs_no_call_and_is_counted(
    open_gateway: OpenGateway, tmp_path: Path
) -> None:
    async with open_gateway({"echo": peer("Echo")}, audit={"file": str(tmp_path)}) as gateway:
        await gateway.call("echo.pid")
        gateway.audit.flush()
        await gateway.audit_file.close()
        assert gateway.lost_records == 1


def test_no_name_forges_a_line_or_reaches_a_terminal() -> None:
    forged = CallRecord(1.0, "a\nb", "x", 'evil"}\n{"outcome":"ok"}\x1b[2J\u202e\x9b', "", "denied", 1.0, 1)
    line = line_of(forged)
    assert line.isascii()
    assert "\n" not in line
    assert "\x1b" not in line
    assert decode(line)["tool"] == forged.tool
