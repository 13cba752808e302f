"""Secrets of servers in the system's keyring: kept, used, missing, and asked for by `add --from-registry`."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_from_registry import RECORD, publish
from tests.conftest import ROOT, peer
from tests.gateway.serving import toml_of

pytest.importorskip("keyring", reason="the package keyring is not installed")
CANARY = "s3cret-canary-value"


@pytest.fixture
def keyed(shell: Shell) -> Shell:
    """A person whose system has a keyring."""
    backend = {"PYTHON_KEYRING_BACKEND": "tests.peers.file_keyring.FileKeyring", "PYTHONPATH": str(ROOT)}
    return Shell(shell.home, shell.cwd, {**shell.variables, **backend, "FILE_KEYRING": str(shell.home / "ring")})


def kept(shell: Shell) -> dict[str, str]:
    file = Path(shell.variables["FILE_KEYRING"])
    return json.loads(file.read_text()) if file.exists() else {}


def test_a_secret_of_the_keyring_reaches_its_server_and_no_file(keyed: Shell) -> None:
    server = peer("Counts", env={"COUNTED": "${keyring:example/token}"})
    secret = str(keyed.home / CANARY)  # a file that the server writes, so that it shows what the server got
    keyed.write(".config/wicket/wicket.toml", toml_of({"s": server}))
    missing = keyed.run("doctor", "--json", "--no-start")
    assert "wicket secret set example/token" in [finding["fix"] for finding in missing.json]
    assert "wicket secret set example/token" in keyed.run("tools", "s").err
    done = keyed.run("secret", "set", "example/token", stdin=f"{secret}\n")
    assert done.code == 0, done.err
    assert CANARY not in done.out + done.err
    assert kept(keyed) == {"wicket example/token": secret}
    called = keyed.run("call", "s.echo", "message=hello")
    assert called.code == 0, called.err
    assert Path(secret).exists()
    assert CANARY not in keyed.config.read_text()
    assert keyed.run("secret", "remove", "example/token").code == 0
    assert kept(keyed) == {}
    assert "has no 'example/token'" in keyed.run("secret", "remove", "example/token").err


def test_secrets_of_a_registry_record_are_asked_for_and_kept(keyed: Shell) -> None:
    publish(keyed, RECORD)
    done = keyed.type(
        "add",
        "--from-registry",
        "com.example/weather",
        answers=[("Add it as weather?", "y\n"), ("set it later", f"{CANARY}\n")],
    )
    assert done.code == 0, done.out
    assert CANARY not in done.out
    assert kept(keyed) == {"wicket weather/WEATHER_KEY": CANARY}
    text = keyed.config.read_text()
    assert "${keyring:weather/WEATHER_KEY}" in text
    assert CANARY not in text


def test_without_a_keyring_the_error_says_what_else_there_is(shell: Shell) -> None:
    none = Shell(shell.home, shell.cwd, {**shell.variables, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"})
    done = none.run("secret", "set", "token", stdin="x")
    assert done.code == 2
    assert "keyring cannot be used" in done.err
    assert "${env:NAME}" in done.err
