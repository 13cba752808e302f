"""`wicket vault`: the credentials that Wicket keeps. It shows how many there are and never one of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, record_act, tell, with_library
from wicket_mcp.cli.output import apply_style, say_json, write
from wicket_mcp.model import LOCAL
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.identity.vault import VaultStatus
    from wicket_mcp.library import Library

app = typer.Typer(no_args_is_help=True, help="Manage the credentials that Wicket stores.", rich_markup_mode=None)


@app.command("status")
def status(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Show where the vault's key is and how many credentials it protects.

    Example: wicket vault status
    """
    row = _row(with_library(config, lambda library: library.vault.status(), verbose=verbose))
    if json:
        say_json(row)
        return
    rows = [("key", row["place"]), ("in use", row["key"] or "nothing is kept yet")]
    rows += [("since", row["created"])] if row["created"] else []
    rows.append(("kept", _amount(row["secrets"])))
    if row["unreadable"]:
        rows.append(("lost", f"{row['unreadable']} of them: their key is missing (wicket vault rotate --discard)"))
    for key, value in rows:
        write(apply_style(f"{key:8}", "bold"), clean(value))


@app.command("rotate")
def rotate(
    discard: Annotated[
        bool, typer.Option("--discard", help="Delete credentials that no available key can decrypt.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Encrypt all credentials with new keys, also while a gateway runs.

    Example: wicket vault rotate
    """

    async def work(library: "Library") -> int:
        rotated = await library.vault.rotate(discard=discard)
        await record_act(library, LOCAL.name, "rotate vault", _amount(rotated))
        return rotated

    count = with_library(config, work, verbose=verbose)
    tell({"secrets": count}, f"Encrypted {_amount(count)} with a new key.", json=json)


def _amount(count: int) -> str:
    return f"{count} credential{'' if count == 1 else 's'}"


def _row(status: "VaultStatus") -> dict[str, Any]:
    from msgspec.structs import asdict

    from wicket_mcp.registry.domains import timestamp

    facts = asdict(status)
    at = facts.pop("created_at")
    return {**facts, "created": None if at is None else timestamp(at)}
