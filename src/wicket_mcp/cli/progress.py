"""What a person sees while servers start or list: a bar on stderr, on a terminal, once it takes over a second."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from wicket_mcp.tasks import Tasks
from wicket_mcp.telemetry.log import clean
from wicket_mcp.upstream.lifecycle import State

if TYPE_CHECKING:
    from wicket_mcp.library import Library

PATIENCE = 1.0  # seconds after which a person wants to know
REFRESH = 0.1
_NAMED = 3


@asynccontextmanager
async def progress(library: "Library") -> AsyncGenerator[None]:
    """Show how far the servers of `library` are, for as long as the body takes."""
    tasks = Tasks()
    if sys.stderr.isatty():
        tasks.start(_show(library), "progress")
    try:
        yield
    finally:
        await tasks.close()


async def _show(library: "Library") -> None:
    await asyncio.sleep(PATIENCE)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        while True:
            words, done, total = _standing(library)
            bar.update(task, description=words, completed=done, total=total or None)
            await asyncio.sleep(REFRESH)


def _standing(library: "Library") -> tuple[str, int, int]:
    """What is going on, and how many servers of how many have been heard."""
    catalogue = library.catalogue
    states = {name: library.pool.state(name)[0] for name in catalogue.servers}
    busy = [name for name, state in states.items() if state is not State.IDLE]
    heard = [name for name in busy if name in catalogue.now.listings or name in catalogue.failures]
    waited_for = [name for name in busy if name not in heard]
    if not waited_for:
        return "Waiting for the answer", 0, 0
    more = len(waited_for) - _NAMED
    names = ", ".join(waited_for[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    starting = any(states[name] is State.STARTING for name in waited_for)
    return clean(f"{'Starting' if starting else 'Listing'} {names}"), len(heard), len(busy)
