"""Uses a store whose files may not grow, then lets them grow again, and prints what came of it."""

import asyncio
import resource
import sys
from pathlib import Path

from wicket_mcp.errors import Internal
from wicket_mcp.model import LOCAL
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.open import open_store


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


async def main(path: Path) -> None:
    store = await open_store(path)
    await store.save_note("before", "kept")
    room = path.with_name(f"{path.name}-wal").stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        await store.save_note("during", "x" * 100_000)
    except Internal as problem:
        say("refused:", problem)
    store.record_call(CallRecord(1.0, LOCAL.name, "x", "echo", "", "ok", 1.0, 1))
    await store.usage(LOCAL)
    say("lost:", store.lost_records)
    say("read:", await store.load_note("before"), await store.load_note("during"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await store.save_note("after", "works")
    say("read:", await store.load_note("after"), await store.load_note("during"))
    await store.close()


asyncio.run(main(Path(sys.argv[1])))
