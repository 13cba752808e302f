"""The command line beside running replicas: API keys for their callers."""

import json
from pathlib import Path

from tests.cli.shell import Shell
from tests.cluster.house import VAULT_KEY


def wicket(folder: Path, *arguments: str, key: str = VAULT_KEY) -> str:
    shell = Shell.at(folder / "home", WICKET_VAULT_KEY=key)
    done = shell.run(*arguments, "--config", str(folder / "wicket.toml"))
    assert done.code == 0, done.err
    return done.out


def make_key(folder: Path, name: str) -> str:
    return json.loads(wicket(folder, "keys", "create", name, "-s", "discover", "-s", "invoke", "--json"))["key"]
