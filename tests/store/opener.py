"""Opens, uses and closes the state whose path or address it reads, line by line, and says how that went."""

import asyncio
import sys
from pathlib import Path

from wicket_mcp.store.open import open_store


async def use(location: str, name: str) -> None:
    store = await open_store(location if "://" in location else Path(location))
    try:
        await store.save_note(name, "was here")
        await store.keys()
    finally:
        await store.close()


for line in sys.stdin:
    try:
        asyncio.run(use(line.strip(), sys.argv[1]))
    except Exception as problem:
        sys.stdout.write(f"{type(problem).__name__}: {problem}\n")
    else:
        sys.stdout.write("ok\n")
    sys.stdout.flush()
