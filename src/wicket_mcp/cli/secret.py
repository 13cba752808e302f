"""`wicket secret`: secrets of configured servers in the system's keyring. A value is asked for and never shown."""

import sys
from getpass import getpass
from typing import Annotated

import typer

from wicket_mcp.cli.common import JsonOption, tell
from wicket_mcp.cli.output import note
from wicket_mcp.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Keep secrets of servers in the system's keyring.", rich_markup_mode=None)
_Name = Annotated[str, typer.Argument(metavar="NAME", help="What wicket.toml calls it: ${keyring:NAME}.")]


@app.command("set")
def set_secret(name: _Name, json: JsonOption = False) -> None:
    """Keep a secret that you type or pipe in.

    Example: wicket secret set github-token
    """
    from wicket_mcp.config.read import keyring

    check_name(name)
    piped = not sys.stdin.isatty()
    value = sys.stdin.read().rstrip("\r\n") if piped else getpass(f"{name}: ")
    if not value:
        raise ConfigError("no secret was given", hint=f"Type it, or pipe it in: wicket secret set {name} < FILE")
    keyring.write(name, value)
    tell({"name": name, "kept": True}, f"Kept {name}.", json=json)
    if not json:
        note(f'Use it in wicket.toml: TOKEN = "${{keyring:{name}}}"')


@app.command("remove")
def remove_secret(name: _Name, json: JsonOption = False) -> None:
    """Forget a secret.

    Example: wicket secret remove github-token
    """
    from wicket_mcp.config.read import keyring

    check_name(name)
    if keyring.read(name) is None:
        raise ConfigError(f"the keyring has no '{name}'", hint="Check its name in wicket.toml.")
    keyring.remove(name)
    tell({"name": name, "kept": False}, f"Forgot {name}.", json=json)


def check_name(name: str) -> None:
    """Raises ConfigError for what cannot stand in a reference."""
    if not name or set("{}$") & set(name) or ":-" in name or not name.isprintable():
        raise ConfigError(f"'{name}' cannot be the name of a secret", hint="Use letters, digits, - and /.")
