"""Opens the state: the only module that chooses an implementation.

Besides it only `transfer.py`, which copies a file to PostgreSQL, imports one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read.secrets import expand
from wicket_mcp.errors import ConfigError
from wicket_mcp.store.base import SharedLimits, Store

if TYPE_CHECKING:
    from wicket_mcp.cluster.claims import ClaimingMembers

STATE_FILE = "wicket.db"


async def open_state(config: Config) -> Store:
    """The state that a configuration names. Raises ConfigError."""
    location: Path | str = config.state_path / STATE_FILE
    if config.store is not None:
        location = expand(config.store, "store", config.base_dir)
    store = await open_store(location)
    if config.shared_limits is not None:
        try:
            store.share_limits(await _open_limits(expand(config.shared_limits, "shared_limits", config.base_dir)))
        except BaseException:
            await store.close()
            raise
    return store


async def _open_limits(address: str) -> SharedLimits:
    try:
        from wicket_mcp.store.redis import RedisLimits  # noqa: PLC0415  (for those who use it)
    except ImportError as problem:
        hint = "Install it: pip install 'wicket-mcp[redis]'."
        raise ConfigError(f"Redis needs what is not installed: {problem}", key="shared_limits", hint=hint) from None
    return await RedisLimits.open(address)


async def open_store(location: Path | str) -> Store:
    """The state at a path or at a `postgresql://` address, created if missing, in this version's format.

    Raises ConfigError, which says what to do, if it cannot be opened.
    """
    from wicket_mcp.store.sql.store import SqlStore  # noqa: PLC0415  (load the chosen implementation alone)

    if isinstance(location, Path):
        from wicket_mcp.store.sqlite.connection import Connection  # noqa: PLC0415

        return SqlStore(await Connection.open(location))
    _check_scheme(location)
    try:
        from wicket_mcp.store.postgres.connection import PostgresConnection  # noqa: PLC0415
    except ImportError as problem:
        hint = "Install it: pip install 'wicket-mcp[postgres]'."
        raise ConfigError(f"PostgreSQL needs what is not installed: {problem}", key="store", hint=hint) from None
    return SqlStore(await PostgresConnection.open(location))


def _check_scheme(address: str) -> None:
    """Raises ConfigError, without the rest of the address, which may have a password."""
    scheme, separator, _ = address.partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        problem = f"a '{scheme}' state store is not built in" if separator else "is not the address of a database"
        hint = "Use postgresql://user@host/database, or leave it out: then the state is a file in 'state_dir'."
        raise ConfigError(problem, key="store", hint=hint)


async def join_members(address: str, me: str, locate: Callable[[str], str]) -> "ClaimingMembers":
    """Join the replicas of the database at `address`, under the id `me`.

    `locate` turns the host at which the database sees us into our address. Raises ConfigError.
    """
    from wicket_mcp.cluster.claims import ClaimsAway  # noqa: PLC0415  (for those who have replicas)
    from wicket_mcp.store.postgres.members import PostgresMembers  # noqa: PLC0415

    try:
        return await PostgresMembers.join(address, me, locate)
    except ClaimsAway as problem:
        hint = "Check that PostgreSQL runs and can be reached."
        raise ConfigError(f"this replica cannot join the others: {problem}", key="store", hint=hint) from None
