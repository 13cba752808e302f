"""`wicket grants`: what OAuth clients were allowed through Wicket's own authorization server."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, tell, with_gateway
from wicket_mcp.cli.output import note, say_json, table

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.identity.grants import Grants
    from wicket_mcp.store.model import StoredGrant

app = typer.Typer(no_args_is_help=True, help="List and revoke the grants of OAuth clients.", rich_markup_mode=None)


@app.command("list")
def list_grants(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """List the grants: who allowed which client what, and until when.

    Example: wicket grants list
    """
    grants = with_gateway(config, lambda gateway: _grants(gateway).list(), verbose=verbose)
    rows = [_row(grant) for grant in grants]
    if json:
        say_json(rows)
        return
    if not rows:
        note("No client was allowed anything yet.")
        return
    table(
        ("ID", "CLIENT", "FOR", "SCOPES", "STATE", "CREATED", "LAST USED"),
        (
            (
                s["id"],
                s["client_name"],
                s["principal"],
                " ".join(s["scopes"]),
                s["state"],
                s["created"],
                s["used"] or "",
            )
            for s in rows
        ),
    )


@app.command("revoke")
def revoke(
    grant: Annotated[str, typer.Argument(help="The grant's id, from wicket grants list.")],
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """End a grant and its tokens at once, also in a running gateway.

    Example: wicket grants revoke 3f9c0b1a2d4e
    """
    ended = with_gateway(config, lambda gateway: _grants(gateway).revoke(grant), verbose=verbose)
    tell(_row(ended), f"Revoked what '{ended.client_name}' was allowed.", json=json)


def _grants(gateway: "Gateway") -> "Grants":
    from wicket_mcp.identity.grants import Grants
    from wicket_mcp.identity.holders import CredentialHolders

    return Grants(gateway.store, CredentialHolders(None, gateway.registry.keys), gateway.audit.act)


def _row(grant: "StoredGrant") -> dict[str, Any]:
    import time

    from wicket_mcp.model import name_of
    from wicket_mcp.registry.domains import timestamp

    expired = time.time() >= grant.expires_at
    return {
        "id": grant.id,
        "client": grant.client,
        "client_name": grant.client_name,
        "principal": name_of(grant.principal),
        "scopes": sorted(grant.scopes),
        "state": _describe_end(grant.reason) if grant.revoked_at else "expired" if expired else "active",
        "created": timestamp(grant.created_at),
        "expires": timestamp(grant.expires_at),
        "used": None if grant.used_at is None else timestamp(grant.used_at),
    }


def _describe_end(reason: str) -> str:
    return "revoked" if reason in ("", "revoked") else f"revoked: {reason}"
