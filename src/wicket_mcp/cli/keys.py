"""`wicket keys`: API keys for clients of this gateway and its registry."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, duration, tell, with_gateway
from wicket_mcp.cli.output import note, say_json, table

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.store.model import StoredKey

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.", rich_markup_mode=None)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The key's name, shown in the audit and used for rate limits.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", "-s", help="discover, register, invoke or admin; repeatable. [default: discover]"),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="How long it is valid, such as 90d. [default: forever]")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", help="Its own limit per hour, such as discovery=500; repeatable."),
    ] = None,
    successor: Annotated[
        bool,
        typer.Option(
            "--successor",
            help="For the holder of the last key of this name, who keeps what was stored for it. Otherwise nothing is.",
        ),
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Create a key and print it once.

    Example: wicket keys create ci --scope discover --scope register
    """
    rates = _rates(rate or [])
    lifetime = duration(expires, "--expires")

    async def work(gateway: "Gateway") -> "tuple[str, StoredKey]":
        keys, scopes = gateway.registry.keys, scope or ["discover"]
        created = await keys.create(name, scopes, lifetime=lifetime, rates=rates, successor=successor)
        gateway.audit.act(gateway.principal.id, "create key", f"{name}: {', '.join(sorted(created[1].scopes))}")
        return created

    text, stored = with_gateway(config, work, verbose=verbose)
    tell({"key": text, **_row(stored)}, text, json=json)
    note(f"Scopes: {', '.join(sorted(stored.scopes))}. Only its digest is kept: write the key down now.")


@app.command("list")
def list_keys(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """List the keys, without their values.

    Example: wicket keys list
    """
    keys = with_gateway(config, lambda gateway: gateway.registry.keys.list(), verbose=verbose)
    rows = [_row(key) for key in keys]
    if json:
        say_json(rows)
        return
    table(
        ("NAME", "KEY", "SCOPES", "STATE", "CREATED", "LAST USED"),
        (
            (s["name"], f"{s['hint']}…", " ".join(s["scopes"]), s["state"], s["created"], s["used"] or "never")
            for s in rows
        ),
    )


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="The key's name.")],
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """End a key at once, also in a running gateway.

    Example: wicket keys revoke ci
    """

    async def work(gateway: "Gateway") -> "StoredKey":
        ended = await gateway.registry.keys.revoke(name)
        gateway.audit.act(gateway.principal.id, "revoke key", name)
        return ended

    ended = with_gateway(config, work, verbose=verbose)
    tell(_row(ended), f"Revoked '{ended.name}' ({ended.hint}…).", json=json)


def _row(key: "StoredKey") -> dict[str, Any]:
    import time

    from wicket_mcp.registry.domains import timestamp

    expired = key.expires_at is not None and time.time() >= key.expires_at
    return {
        "name": key.name,
        "hint": key.hint,
        "scopes": sorted(key.scopes),
        "state": "revoked" if key.revoked_at else "expired" if expired else "active",
        "created": timestamp(key.created_at),
        "expires": None if key.expires_at is None else timestamp(key.expires_at),
        "used": None if key.used_at is None else timestamp(key.used_at),
        "rates": dict(key.rates),
    }


def _rates(texts: list[str]) -> dict[str, int]:
    rates: dict[str, int] = {}
    for item in texts:
        kind, equals, count = item.partition("=")
        if not equals or not count.isdigit():
            raise typer.BadParameter(f"'{item}' is not KIND=NUMBER", param_hint="--rate")
        rates[kind] = int(count)
    return rates
