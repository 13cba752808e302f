"""`wicket status`: what is configured and known, without starting anything."""

from typing import TYPE_CHECKING, Any

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, with_gateway
from wicket_mcp.cli.output import say_json, styled, write
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway


def status(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Show what is configured and known; starts nothing.

    Example: wicket status --json
    """

    async def work(gateway: "Gateway") -> dict[str, Any]:
        seen = await gateway.verbs.servers(gateway.principal)
        settings = gateway.config
        state = settings.state_path
        return {
            "config": str(settings.path or ""),
            "state": str(state),
            "token_file": str(state / "token"),
            "address": f"http://{settings.http.host}:{settings.http.port}/mcp",
            "dialects": list(settings.dialects),
            "servers": {server.name: server.state for server in seen},
            "disabled": [server.name for server in settings.servers if not server.enabled],
            "tools": sum(server.tools or 0 for server in seen),
            "scripts": str(gateway.scripting.engine.status()),
            "notes": list(settings.notes),
        }

    facts = with_gateway(config, work, verbose=verbose, names_notes=False)
    if json:
        say_json(facts)
        return
    for key, value in _rows(facts):
        write(styled(f"{key:11}", "bold"), clean(value))


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    unseen = [name for name, state in facts["servers"].items() if state == "unseen"]
    rows = [
        ("config", facts["config"]),
        ("state", facts["state"]),
        ("token file", facts["token_file"]),
        ("address", f"{facts['address']} (when served with --http)"),
        ("dialects", ", ".join(facts["dialects"])),
        ("servers", f"{len(facts['servers'])}" + (f", never seen: {', '.join(unseen)}" if unseen else "")),
        ("tools", f"{facts['tools']:,}"),
        ("scripts", facts["scripts"]),
    ]
    if facts["disabled"]:
        rows.append(("disabled", ", ".join(facts["disabled"])))
    return rows + [("note", text) for text in facts["notes"]]
