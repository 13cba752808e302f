"""`wicket whoami`: in whose name the command line acts."""

from typing import TYPE_CHECKING, Any

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, with_gateway
from wicket_mcp.cli.output import apply_style, say_json, write
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway


def whoami(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Show who this command line acts for, and with which scopes.

    Example: wicket whoami
    """

    async def work(gateway: "Gateway") -> dict[str, Any]:
        await gateway.act_for_key()
        principal = gateway.principal
        owner = principal.id == "local"
        return {
            "principal": principal.name,
            "kind": "owner" if owner else "api key",
            "scopes": sorted(principal.scopes),
            "credentials": list(await gateway.vault.names(principal.id)),
            "shared_credentials": list(await gateway.vault.names("shared")) if owner else [],
        }

    facts = with_gateway(config, work, verbose=verbose)
    if json:
        say_json(facts)
        return
    rows = [("you are", f"{facts['principal']} ({facts['kind']})"), ("scopes", ", ".join(facts["scopes"]))]
    rows.append(
        ("yours", ", ".join(map(_in_words, facts["credentials"])) or "you have not signed in to any server yourself")
    )
    if facts["shared_credentials"]:
        rows.append(("shared", ", ".join(map(_in_words, facts["shared_credentials"]))))
    for key, value in rows:
        write(apply_style(f"{key:8}", "bold"), clean(value))


def _in_words(name: str) -> str:
    """A credential, as the vault names it, for people."""
    kind, _, about = name.partition(" ")
    words = {"oauth": f"sign-in to {about}", "env": f"keys for {about}", "client": f"registration at {about}"}
    return words.get(kind, name)
