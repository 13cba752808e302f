"""`wicket migrate`: brings the state of one machine to where replicas share it."""

from pathlib import Path
from typing import Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, read, tell
from wicket_mcp.cli.output import note
from wicket_mcp.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Copy the state to another store.", rich_markup_mode=None)


@app.callback()
def migrate() -> None:
    """Copy the state to another store."""


@app.command("sqlite-to-postgres")
def sqlite_to_postgres(
    file: Annotated[
        Path | None, typer.Option("--from", help="The state file. By default the one in state_dir.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Copy the state file into the database that `store` names, which must be empty. The file stays as it is.

    Example: wicket migrate sqlite-to-postgres
    """
    import asyncio

    from wicket_mcp.config.read.secrets import expand
    from wicket_mcp.store.open import STATE_FILE

    settings = read(config)
    if not (settings.store or "").startswith(("postgresql://", "postgres://", "${")) or settings.store is None:
        raise ConfigError(
            "there is no database to copy to", key="store", hint='Write store = "postgresql://user@host/database".'
        )
    try:
        from wicket_mcp.store.transfer import copy_to_postgres
    except ImportError as problem:
        hint = "Install it: pip install 'wicket-mcp[postgres]'."
        raise ConfigError(f"PostgreSQL needs what is not installed: {problem}", key="store", hint=hint) from None

    def progress(table: str, rows: int) -> None:
        if rows and not json:
            note(f"{table}: {rows} rows")

    source = file or settings.state_path / STATE_FILE
    address = expand(settings.store, "store", settings.base_dir)
    counts = asyncio.run(copy_to_postgres(source, address, progress))
    key = "" if not counts.get("vault_key") else " The vault's key stays the same: give it to every replica."
    tell({"rows": counts}, f"Copied {sum(counts.values())} rows of {source}.{key}", json=json)
