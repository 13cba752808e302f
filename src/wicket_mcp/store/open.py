"""Opens the state: the one place that chooses an implementation, and the only one that imports one."""

from pathlib import Path

from wicket_mcp.errors import ConfigError
from wicket_mcp.store.base import Store

STATE_FILE = "wicket.db"


async def open_store(location: Path | str) -> Store:
    """The state at a path, made where there is none and brought to this version's format.

    Raises ConfigError when it cannot be opened, and says what to do.
    """
    scheme, separator, _ = str(location).partition("://")
    if separator:
        raise ConfigError(
            f"a '{scheme}' state store is not built in", hint="Use a path: Wicket keeps its state in a SQLite file."
        )
    from wicket_mcp.store.sqlite.store import SqliteStore  # noqa: PLC0415  (load the chosen implementation alone)

    return await SqliteStore.open(Path(location))
