"""Writes notes to the state file as fast as it can and names each one that is kept, until somebody kills it."""

import asyncio
import itertools
import sys
from pathlib import Path

from wicket_mcp.store.open import open_store


async def main(path: Path, prefix: str) -> None:
    store = await open_store(path)
    for number in itertools.count():
        name = f"{prefix}-{number}"
        await store.save_note(name, f"content of {name}")
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
