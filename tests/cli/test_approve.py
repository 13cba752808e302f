"""`wicket approve` is a person's answer: without a terminal it is none, and no option makes it one."""

import pytest

from tests.cli.shell import Shell
from tests.conftest import peer
from tests.gateway.serving import toml_of
from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

ASK = '[[policy.rules]]\naction = "ask"\ntool = "echo"\n'
WORDS = "correct horse battery"


def waiting(shell: Shell, policy: str = "") -> str:
    """The id of a call that waits."""
    shell.write(".config/wicket/wicket.toml", f"[policy]\n{policy}\n{ASK}{toml_of({'e': peer('Echo')})}")
    shell.run("call", "e.echo", "message=hi")
    (row,) = shell.run("approve", "--json").json
    return row["name"]


def is_made(shell: Shell) -> bool:
    return shell.run("call", "e.echo", "message=hi").code == 0


def test_a_program_without_a_terminal_approves_nothing(shell: Shell) -> None:
    """W5: the command itself was the yes, and the refusal told the agent the command."""
    number = waiting(shell)
    refused = shell.run("call", "e.echo", "message=hi")
    assert f"approve {number} in Wicket" in refused.err
    assert "wicket approve" not in refused.err
    for arguments in ((number,), (number, "--always"), (number, "--json")):
        done = shell.run("approve", *arguments, stdin="y\n")
        assert (done.code, "there is no terminal here" in done.err, "unattended" in done.err) == (1, True, False)
    assert shell.run("approve", number, "--yes").code == 2
    assert not is_made(shell)
    assert shell.type("approve", number, answers=[("Approve it?", "y\r")]).code == 0
    assert is_made(shell)
    assert "/dev/" in shell.run("logs", "--json").out, "the audit says at which terminal"


def test_the_configuration_may_let_a_script_approve(shell: Shell) -> None:
    """W5: an unattended yes is there only where the configuration says so."""
    number = waiting(shell, "unattended = true")
    assert shell.run("approve", number).code == 0
    assert is_made(shell)
    assert "(unattended)" in shell.run("logs", "--json").out


def test_a_terminal_shows_the_whole_call_apart_from_the_question(shell: Shell) -> None:
    """W7: what is approved unseen."""
    waiting(shell)
    shell.run("call", "e.echo", f"message={'x' * 5000}; rm -rf ~")
    number = shell.run("approve", "--json").json[1]["name"]
    shown = shell.type("approve", number, answers=[("Approve it?", "n\r")]).out
    assert "(rule 1 asks.)\nArguments: {" in shown
    assert shown.count("x") >= 5000
    assert "; rm -rf ~" in " ".join(shown.split())


@pytest.mark.parametrize("guess", [WORDS, "another horse"])
def test_a_passphrase_is_asked_for_whatever_the_configuration_says(guess: str, shell: Shell) -> None:
    """W5: a program that makes a terminal for itself still does not know it."""
    number = waiting(shell, "unattended = true")
    assert shell.run("approve", "--passphrase").code == 1
    new = [("(empty for none): ", f"{WORDS}\r"), ("Once more: ", f"{WORDS}\r")]
    assert "need the passphrase from now on" in shell.type("approve", "--passphrase", answers=new).out
    assert shell.run("approve", number).code == 1, "unattended or not"
    answers = [("Approve it?", "y\r"), ("passphrase: ", f"{guess}\r")]
    done = shell.type("approve", number, answers=answers)
    assert (done.code == 0, guess in done.out) == (guess == WORDS, False)
    assert is_made(shell) == (guess == WORDS)
    change = [("until now: ", f"{guess}\r"), ("(empty for none): ", "\r"), ("Once more: ", "\r")]
    done = shell.type("approve", "--passphrase", answers=change if guess == WORDS else change[:1])
    assert (done.code == 0) == (guess == WORDS)
    assert WORDS not in shell.run("logs", "--json").out


@pytest.mark.parametrize(
    ("name", "parameters", "runs"),
    [
        ("run_command", {}, True),
        ("evaluate", {"expression": {}}, True),
        ("list_things", {"shell": {}}, True),
        ("write_file", {"path": {}}, True),
        ("frobnicate", {}, True),
        ("get_weather", {"city": {}}, False),
        ("send_mail", {"to": {}}, False),
    ],
)
def test_the_doctor_warns_where_a_program_could_answer_for_a_person(
    name: str, parameters: JsonObject, runs: bool, shell: Shell
) -> None:
    """W5: what an agent with a shell of the same user can do is said where the rules stand."""
    listing = shell.home / "listing.json"
    schema: JsonObject = {"type": "object", "properties": parameters}
    listing.write_bytes(encode({"tools": [{"name": name, "inputSchema": schema}]}))
    server = peer("Mutates", env={"LISTING": str(listing)})
    shell.write(".config/wicket/wicket.toml", f"[policy]\n{ASK}{toml_of({'m': server})}")
    warning = f"rules ask a person, and what can run code as you could answer for you: m (m.{name})"
    assert (warning in " ".join(shell.run("doctor").out.split())) == runs
    if runs and name == "run_command":
        new = [("(empty for none): ", f"{WORDS}\r"), ("Once more: ", f"{WORDS}\r")]
        assert shell.type("approve", "--passphrase", answers=new).code == 0
        assert warning not in " ".join(shell.run("doctor").out.split())
